package controllerruntime

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/gapless-io/gapless/compat/harness"
)

// heard collects the warnings of answers.
type heard struct {
	mu  sync.Mutex // guards all
	all []string
}

func (h *heard) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, text)
}

// TestOperatorWithWebhooks runs the operator as a project of kubebuilder tests it: package
// envtest installs the definition and the generated manifests, so that the server asks the
// manager's webhooks on loopback: to default, to validate and to convert.
func TestOperatorWithWebhooks(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	c, warnings, stop := kubebuilderProject(t)
	of := func(name, what string) *shopV2 {
		s := &shopV2{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		s.Spec.Content.Of = what
		return s
	}
	refused := func(err error, why string) {
		t.Helper()
		want := `admission webhook "vshop.example.org" denied the request: ` + why
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("refused with %v, want %s", err, want)
		}
	}

	corner := of("corner", "")
	if err := c.Create(t.Context(), corner); err != nil {
		t.Fatalf("create: %v", err)
	}
	harness.Eventually(t, "the operator sees the default", func() bool {
		var child corev1.ConfigMap
		return c.Get(t.Context(), client.ObjectKeyFromObject(corner), &child) == nil && child.Data["of"] == "bread"
	})
	// Who writes the other version is converted for the webhooks, which ask for v2.
	old := &shopV1{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}}
	if err := c.Create(t.Context(), old); err != nil || old.Spec.Of != "bread" {
		t.Errorf("in v1 %q is the default: %v", old.Spec.Of, err)
	}
	refused(c.Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"of":"poison"}}`))),
		"no shop sells poison")
	refused(c.Create(t.Context(), of("dark", "poison")), "no shop sells poison")
	refused(c.Create(t.Context(), of("dark", "poison"), client.DryRunAll), "no shop sells poison")

	trial := of("trial", "")
	if err := c.Create(t.Context(), trial, client.DryRunAll); err != nil || trial.Spec.Content.Of != "bread" {
		t.Errorf("a dry run has the default %q: %v", trial.Spec.Content.Of, err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(trial), trial); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run is stored: %v", err)
	}
	dairy := of("dairy", "milk")
	dairy.Annotations = map[string]string{"keep": "it"}
	if err := c.Create(t.Context(), dairy); err != nil {
		t.Fatalf("create: %v", err)
	}
	warnings.mu.Lock()
	if !strings.Contains(strings.Join(warnings.all, "\n"), "milk turns sour") {
		t.Errorf("warned of %q", warnings.all)
	}
	warnings.mu.Unlock()
	refused(c.Delete(t.Context(), dairy), "it is to be kept")
	refused(c.DeleteAllOf(t.Context(), &shopV2{}, client.InNamespace("default")), "it is to be kept")

	stop()
	err := c.Create(t.Context(), of("late", "tea"))
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "mshop.example.org"`) {
		t.Errorf("without webhooks a write fails with %v", err)
	}
}

// kubebuilderProject starts the server and the operator with its webhooks. stop ends the
// operator; the end of the test does, too.
func kubebuilderProject(t *testing.T) (c client.Client, warnings *heard, stop func()) {
	t.Helper()
	scheme, err := shopScheme()
	if err != nil {
		t.Fatalf("shop scheme: %v", err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(fmt.Appendf(nil,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"shops.example.org"},
		"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"shops","singular":"shop","kind":"Shop","listKind":"ShopList"},"versions":%s}}`,
		shopVersions("v1", "v1", "v2")), &definition); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", harness.Start(t).Kubeconfig)
	if err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	warnings = &heard{}
	cfg.WarningHandlerWithContext = warnings
	env := &envtest.Environment{
		Config: cfg, UseExistingCluster: new(true), Scheme: scheme,
		CRDs:                  []*apiextensionsv1.CustomResourceDefinition{&definition},
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"testdata"}},
	}
	if _, err := env.Start(); err != nil {
		t.Fatalf("start env: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop env: %v", err)
		}
	})
	hooks := env.WebhookInstallOptions
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		}),
	})
	if err != nil {
		t.Fatalf("make a manager: %v", err)
	}
	if err := serveShopWebhooks(m); err != nil {
		t.Fatalf("serve shop webhooks: %v", err)
	}
	if err := ctrl.NewControllerManagedBy(m).Named("shops-with-webhooks").For(&shopV2{}).Owns(&corev1.ConfigMap{}).Complete(
		&shops{client: m.GetClient()}); err != nil {
		t.Fatalf("complete owns: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }() // ends with ctx
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	t.Cleanup(stop)
	harness.Eventually(t, "the webhooks are served", func() bool {
		return m.GetWebhookServer().StartedChecker()(&http.Request{}) == nil
	})
	c, err = client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return c, warnings, stop
}
