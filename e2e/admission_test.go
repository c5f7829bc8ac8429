package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
)

// sidecars adds a container to every pod, and refuses ConfigMaps with the label "bad". It warns
// about both.
func sidecars(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Warnings: []string{"I was asked"}}
	switch {
	case review.Request.Kind.Kind == "Pod":
		patch := admissionv1.PatchTypeJSONPatch
		said.PatchType = &patch
		said.Patch = []byte(`[{"op":"add","path":"/spec/containers/-","value":{"name":"sidecar","image":"i"}}]`)
	case strings.Contains(string(review.Request.Object.Raw), `"bad":`):
		said.Allowed = false
		said.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "it is bad"}
	}
	review.Request, review.Response = nil, said
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the caller may have left
}

// heardWarnings records the Warning headers that client-go reads.
type heardWarnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (h *heardWarnings) HandleWarningHeader(_ int, _, text string) { h.texts = append(h.texts, text) }

func TestWebhooksAreAskedAboutWritesOfClients(t *testing.T) {
	hook := httptest.NewTLSServer(http.HandlerFunc(sidecars))
	defer hook.Close()
	s := launch(t, gapless.Config{})
	cfg, warned := rest.CopyConfig(s.RESTConfig()), &heardWarnings{}
	cfg.WarningHandler = warned
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	defer web.CloseIdleConnections()
	c, err := kubernetes.NewForConfigAndClient(cfg, web)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hook.Certificate().Raw})
	client := admissionregistrationv1.WebhookClientConfig{URL: &hook.URL, CABundle: ca}
	effects := admissionregistrationv1.SideEffectClassNone
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "configmaps"},
		},
	}}
	ctx := t.Context()
	if _, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx,
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "sidecars"},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "sidecars.example.com", ClientConfig: client, Rules: rules, SideEffects: &effects,
				AdmissionReviewVersions: []string{"v1"},
			}},
		}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create mutating webhook configurations: %v", err)
	}
	// The configuration holds for the next request.
	pod, err := c.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a pod: %v", err)
	}
	if n := len(pod.Spec.Containers); n != 2 || pod.Spec.Containers[1].TerminationMessagePath == "" {
		t.Errorf("%d containers: %+v", n, pod.Spec.Containers)
	}
	if len(warned.texts) != 1 || warned.texts[0] != "I was asked" {
		t.Errorf("warnings %q", warned.texts)
	}
	bad := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{"bad": "1"}}}
	_, err = c.CoreV1().ConfigMaps("default").Create(ctx, bad, metav1.CreateOptions{DryRun: []string{"All"}})
	if err == nil || err.Error() != `admission webhook "sidecars.example.com" denied the request: it is bad` {
		t.Errorf("%v", err)
	}
	if err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, "sidecars",
		metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete mutating webhook configurations: %v", err)
	}
	if _, err := c.CoreV1().ConfigMaps("default").Create(ctx, bad, metav1.CreateOptions{}); err != nil {
		t.Errorf("create config maps: %v", err)
	}
}
