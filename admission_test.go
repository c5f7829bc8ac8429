package gapless_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/gapless-io/gapless"
)

// asker is a webhook over HTTPS.
type asker struct {
	*httptest.Server

	// mu guards answer and asked.
	mu     sync.Mutex
	answer func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse
	asked  []string // operation and name
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	a := &asker{}
	a.Server = httptest.NewTLSServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP implements http.Handler.
func (a *asker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	answer := a.answer
	a.asked = append(a.asked, string(review.Request.Operation)+" "+review.Request.Name)
	a.mu.Unlock()
	response := admissionv1.AdmissionResponse{Allowed: true}
	if answer != nil {
		response = answer(review.Request)
	}
	response.UID = review.Request.UID
	// the caller may have left
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &response})
}

// says sets the answers.
func (a *asker) says(answer func(*admissionv1.AdmissionRequest) admissionv1.AdmissionResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// heard returns what was asked since the last call.
func (a *asker) heard() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// configuration is a configuration with one webhook, which is asked about ConfigMaps; more are
// further members of the webhook.
func (a *asker) configuration(t *testing.T, kind, name, url, more string) string {
	t.Helper()
	ca, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw}))
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `WebhookConfiguration","metadata":{"name":"` +
		name + `"},"webhooks":[{"name":"` + name +
		`.example.com","clientConfig":{"url":"` + url + `","caBundle":` + string(ca) +
		`},"sideEffects":"None","admissionReviewVersions":["v1"],` +
		`"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]` + more + `}]}`
}

const (
	registration  = "/apis/admissionregistration.k8s.io/v1/"
	configMapsURL = "/api/v1/namespaces/default/configmaps"
)

// must sends a request, such as "GET /api", that must be answered with a code.
func (s launched) must(t *testing.T, client *http.Client, request, body string, code int) {
	t.Helper()
	if got, text := s.exchange(t, client, request, body); got != code {
		t.Fatalf("%s: %d %s", request, got, text)
	}
}

// TestAdmissionIsInTheAuditLog has two mutating webhooks, of which one cannot be called, a
// validating one, and a policy that audits.
func TestAdmissionIsInTheAuditLog(t *testing.T) {
	dir := t.TempDir()
	rules, file := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(rules,
		[]byte(
			"apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Request, resources: "+
				"[{resources: [configmaps]}]}]"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	s := launch(t, gapless.Config{Memory: true, Audit: gapless.Audit{PolicyFile: rules, LogPath: file}})
	client, hook := s.web(t), newAsker(t)
	patch := admissionv1.PatchTypeJSONPatch
	hook.says(func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
		said := admissionv1.AdmissionResponse{
			Allowed: true, AuditAnnotations: map[string]string{"says": "hello", "no good key!": "x"},
		}
		if !strings.Contains(string(r.Object.Raw), `"by"`) {
			said.Patch, said.PatchType = []byte(`[{"op":"add","path":"/data","value":{"by":"webhook"}}]`), &patch
		}
		return said
	})
	mutating, validating := registration+"mutatingwebhookconfigurations", registration+"validatingwebhookconfigurations"
	s.must(t, client, "POST "+mutating, hook.configuration(t, "Mutating", "a", hook.URL, ""), 201)
	s.must(t, client, "POST "+mutating,
		hook.configuration(t, "Mutating", "b", "https://127.0.0.1:1/", `,"failurePolicy":"Ignore"`), 201)
	s.must(t, client, "POST "+validating, hook.configuration(t, "Validating", "c", hook.URL, ""), 201)
	s.must(t, client, "POST "+registration+"validatingadmissionpolicies",
		`{"metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[
{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]},"validations":[{"expression":"false","message":"no"}],
"auditAnnotations":[{"key":"what","valueExpression":"'a ' + object.kind + ' by ' + request.options.kind"}]}}`, 201)
	s.must(t, client, "POST "+registration+"validatingadmissionpolicybindings",
		`{"metadata":{"name":"b"},"spec":{"policyName":"p","validationActions":["Audit"]}}`, 201)
	code, written := s.exchange(t, client, "POST "+configMapsURL, `{"metadata":{"name":"x"}}`)
	if code != 201 {
		t.Fatalf("create: %d %s", code, written)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	lines := slices.Collect(bytes.Lines(content))
	if len(lines) != 1 {
		t.Fatalf("%d events: %s", len(lines), content)
	}
	var event auditv1.Event
	if err := json.Unmarshal(lines[0], &event); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	want := map[string]string{
		"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "",
		"a.example.com/says": "hello", "c.example.com/says": "hello", "p/what": "a ConfigMap by CreateOptions",
		"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"a",` +
			`"webhook":"a.example.com","mutated":true}`,
		"mutation.webhook.admission.k8s.io/round_0_index_1": `{"configuration":"b",` +
			`"webhook":"b.example.com","mutated":false}`,
		"patch.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"a","webhook":"a.example.com",` +
			`"patch":[{"op":"add","path":"/data","value":{"by":"webhook"}}],"patchType":"JSONPatch"}`,
		"failed-open.mutation.webhook.admission.k8s.io/round_0_index_1": "b.example.com",
		"validation.policy.admission.k8s.io/validation_failure": `[{"message":"no","policy":"p","binding":"b",` +
			`"expressionIndex":0,"validationActions":["Audit"]}]`,
	}
	got := maps.Clone(event.Annotations)
	if rv := got["gapless.io/resource-version"]; rv == "" || !strings.Contains(written, `"resourceVersion":"`+rv+`"`) {
		t.Errorf("the event says %q of what was written: %s", rv, written)
	}
	delete(got, "gapless.io/resource-version")
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestWhatIsAcknowledgedOfAConfigurationHolds changes a configuration in every way, and writes
// right after each.
func TestWhatIsAcknowledgedOfAConfigurationHolds(t *testing.T) {
	s := launch(t, gapless.Config{Memory: true})
	client, hook := s.web(t), newAsker(t)
	all := registration + "validatingwebhookconfigurations"
	on, off := hook.configuration(t, "Validating", "c", hook.URL, ""), hook.configuration(t, "Validating", "c", hook.URL,
		`,"objectSelector":{"matchLabels":{"ask":"me"}}`)
	const item = "application/json-patch+json"
	steps := []struct {
		what, method, path, body, kind string
		code, asked                    int
	}{
		{"create", "POST", all, on, "", 201, 1},
		{"update", "PUT", all + "/c", off, "", 200, 0},
		{"patch", "PATCH", all + "/c", `[{"op":"replace","path":"/webhooks/0/objectSelector","value":{}}]`, item, 200, 1},
		{"apply", "PATCH", all + "/c?fieldManager=m&force=true", off, "application/apply-patch+yaml", 200, 0},
		{"patch again", "PATCH", all + "/c", `[{"op":"replace","path":"/webhooks/0/objectSelector","value":{}}]`, item, 200, 1},
		{"dry run of a deletion", "DELETE", all + "/c?dryRun=All", "", "", 200, 1},
		{
			"finalizer", "PATCH", all + "/c", `[{"op":"add","path":"/metadata/finalizers","value":["example.com/f"]}]`, item, 200,
			1,
		},
		{"deletion that waits", "DELETE", all + "/c", "", "", 200, 1},
		{"last finalizer", "PATCH", all + "/c", `[{"op":"remove","path":"/metadata/finalizers"}]`, item, 200, 0},
		{"apply that creates", "PATCH", all + "/c?fieldManager=m", on, "application/apply-patch+yaml", 201, 1},
		{"delete", "DELETE", all + "/c", "", "", 200, 0},
		{"create again", "POST", all, on, "", 201, 1},
		{"deletecollection", "DELETE", all, "", "", 200, 0},
	}
	for i, step := range steps {
		if step.method == http.MethodPut {
			_, text := s.exchange(t, client, "GET "+step.path, "")
			var now metav1.PartialObjectMetadata
			if err := json.Unmarshal([]byte(text), &now); err != nil {
				t.Fatalf("decode JSON: %v", err)
			}
			step.body = strings.Replace(step.body, `"metadata":{`, `"metadata":{"resourceVersion":"`+now.ResourceVersion+`",`, 1)
		}
		if code, text := s.exchange(t, client, step.method+" "+step.path, step.body,
			cmp.Or(step.kind, "application/json")); code != step.code {
			t.Fatalf("%s: %d %s", step.what, code, text)
		}
		s.must(t, client, "POST "+configMapsURL, `{"metadata":{"name":"x`+string(rune('a'+i))+`"}}`, 201)
		if got := hook.heard(); len(got) != step.asked {
			t.Errorf("after %s the webhook was asked %q, want %d", step.what, got, step.asked)
		}
	}
}

// TestAWebhookMayCallTheServerThatAsksIt has a webhook that changes the object in question, and
// writes another one, about which it is asked again.
func TestAWebhookMayCallTheServerThatAsksIt(t *testing.T) {
	s := launch(t, gapless.Config{Memory: true})
	client, hook := s.web(t), newAsker(t)
	inner := s.web(t)
	s.must(t, client, "POST "+configMapsURL, `{"metadata":{"name":"x"}}`, 201)
	s.must(t, client, "POST "+registration+"validatingwebhookconfigurations",
		hook.configuration(t, "Validating", "c", hook.URL, `,"timeoutSeconds":30`), 201)
	var began atomic.Bool
	hook.says(func(r *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
		if began.CompareAndSwap(false, true) {
			if code, text := s.exchange(t, inner, "PATCH "+configMapsURL+"/x", `{"data":{"inner":"1"}}`,
				"application/merge-patch+json"); code != 200 {
				t.Errorf("from within: %d %s", code, text)
			}
			if code, text := s.exchange(t, inner, "POST "+configMapsURL, `{"metadata":{"name":"`+r.Name+`-log"}}`); code != 201 {
				t.Errorf("from within: %d %s", code, text)
			}
			if code, text := s.exchange(t, inner, "GET "+configMapsURL+"?resourceVersion=0", ""); code != 200 {
				t.Errorf("from within: %d %s", code, text)
			}
		}
		return admissionv1.AdmissionResponse{Allowed: true}
	})
	if code, text := s.exchange(t, client, "PATCH "+configMapsURL+"/x", `{"data":{"outer":"1"}}`,
		"application/merge-patch+json"); code != 200 ||
		!strings.Contains(text, `"inner":"1"`) || !strings.Contains(text, `"outer":"1"`) {
		t.Errorf("%d %s", code, text)
	}
	// Two more for the write from within and the creation, and again after the conflict.
	if got := hook.heard(); !slices.Equal(got, []string{"UPDATE x", "UPDATE x", "CREATE x-log", "UPDATE x"}) {
		t.Errorf("asked about %q", got)
	}
}
