package webhook_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/admission/webhook"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a registry over a log in memory that asks webhooks.
type server struct {
	*registry.Registry
	t      testing.TB
	live   *kinds.Live
	plugin *webhook.Plugin
}

// late is the registry, which is made after its plugin.
type late struct{ *registry.Registry }

func start(t testing.TB) *server {
	t.Helper()
	store, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	s := &server{t: t, live: kinds.NewLive(builtin.Catalog())}
	cluster := &late{}
	s.plugin = webhook.New(webhook.Config{Live: s.live, Cluster: cluster, Authorizer: admission.Authorizer(auth.MastersOnly{})})
	s.Registry = registry.New(registry.Config{
		Store: store, Live: s.live, Admission: admission.Chain{s.plugin}, Followers: []registry.Follower{s.plugin},
	})
	cluster.Registry = s.Registry
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	stored, served := make(chan error, 1), make(chan error, 1)
	go func() { stored <- store.Run(context.WithoutCancel(ctx)) }() // ends with Close
	go func() { served <- s.Run(ctx) }()                            // ends with ctx
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-served, store.Close(), <-stored); err != nil {
			t.Errorf("run: %v", err)
		}
		s.plugin.Close()
	})
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	return s
}

// jane is the caller of every write.
var jane = &user.DefaultInfo{Name: "jane", UID: "42", Groups: []string{"devs"}, Extra: map[string][]string{"scopes": {"a", "b"}}}

// at is the target of a version of a resource, then namespace, name and subresource.
func (s *server) at(group, version, plural string, place ...string) kinds.Target {
	s.t.Helper()
	r, found := s.live.Load().Lookup(kinds.GroupVersionResource{Group: group, Version: version, Resource: plural})
	if !found {
		s.t.Fatalf("%s/%s %s is not served", group, version, plural)
	}
	place = append(place, "", "", "")
	return kinds.Target{Resource: r, Namespace: place[0], Name: place[1], Subresource: place[2], Caller: jane}
}

// maps is the target of a ConfigMap in the namespace default.
func (s *server) maps(name string) kinds.Target {
	return s.at("", "v1", "configmaps", "default", name)
}

// create creates an object.
func (s *server) create(at kinds.Target, body string) (*wire.Object, error) {
	at.Name = ""
	w, err := s.Create(s.t.Context(), at, []byte(body), metav1.CreateOptions{})
	return w.Object, err
}

// createMap creates a ConfigMap.
func (s *server) createMap(name string) (*wire.Object, error) {
	return s.create(s.maps(name), `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"},"data":{"a":"1"}}`)
}

// merge applies a merge patch.
func (s *server) merge(at kinds.Target, patch string) (*wire.Object, error) {
	w, err := s.Patch(s.t.Context(), at, wire.Patch{Type: types.MergePatchType, Body: []byte(patch)}, metav1.PatchOptions{})
	return w.Object, err
}

// made is what is configured of webhooks: kind and name of the configuration, and its webhooks.
func (s *server) configure(kind, name, webhooks string) {
	s.t.Helper()
	plural := map[string]string{
		"Mutating": "mutatingwebhookconfigurations", "Validating": "validatingwebhookconfigurations",
	}[kind]
	body := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `WebhookConfiguration","metadata":{"name":"` +
		name + `"},"webhooks":[` + webhooks + `]}`
	if _, err := s.create(s.at("admissionregistration.k8s.io", "v1", plural), body); err != nil {
		s.t.Fatalf("create: %v", err)
	}
}

// onMaps is a rule for ConfigMaps.
const onMaps = `"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["*"]}]`

// hook is a real HTTPS server that is asked about writes.
type hook struct {
	*httptest.Server
	t testing.TB

	// mu guards answer and asked.
	mu     sync.Mutex
	answer http.HandlerFunc // nil: allows
	asked  []admissionv1.AdmissionRequest
}

func newHook(t testing.TB) *hook {
	t.Helper()
	h := &hook{t: t}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

// ServeHTTP implements http.Handler.
func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has left
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		h.t.Errorf("a bad review: %s", body)
		return
	}
	h.mu.Lock()
	h.asked = append(h.asked, *review.Request)
	answer := h.answer
	h.mu.Unlock()
	if answer != nil {
		answer(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, &review)))
		return
	}
	reply(w, &review, admissionv1.AdmissionResponse{Allowed: true})
}

type requestKey struct{}

// reviewOf is the review of a request to a webhook.
func reviewOf(r *http.Request) *admissionv1.AdmissionReview {
	return r.Context().Value(requestKey{}).(*admissionv1.AdmissionReview) //nolint:forcetypeassert // ServeHTTP puts it
}

// reply answers a review.
func reply(w http.ResponseWriter, review *admissionv1.AdmissionReview, a admissionv1.AdmissionResponse) {
	a.UID = review.Request.UID
	w.Header().Set("Content-Type", "application/json")
	// the caller may have left
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: &a})
}

// instead replaces the answers; nil allows again.
func (h *hook) instead(answer http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = answer
}

// says answers every review in the same way.
func (h *hook) says(a admissionv1.AdmissionResponse) {
	h.instead(func(w http.ResponseWriter, r *http.Request) { reply(w, reviewOf(r), a) })
}

// patches answers every review with a JSON patch.
func (h *hook) patches(patch string) {
	kind := admissionv1.PatchTypeJSONPatch
	h.says(admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind})
}

// heard returns what was asked since the last call.
func (h *hook) heard() []admissionv1.AdmissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := h.asked
	h.asked = nil
	return asked
}

// ca is the certificate of a webhook in PEM, as JSON has it.
func (h *hook) ca() string {
	text, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	if err != nil {
		h.t.Fatalf("encode as JSON: %v", err)
	}
	return string(text)
}

// webhook is an item of a configuration that calls h; more are further members.
func (h *hook) webhook(name, more string) string {
	return item(name, `{"url":"`+h.URL+`/ask","caBundle":`+h.ca()+`}`, more)
}

// item is a webhook of a configuration.
func item(name, client, more string) string {
	if more != "" {
		more = "," + more
	}
	return `{"name":"` + name + `","clientConfig":` + client + `,"sideEffects":"None","admissionReviewVersions":["v1"]` + more +
		`}`
}

// codeOf and textOf are the answer to a client.
func codeOf(err error) int32 {
	if err == nil {
		return 200
	}
	if s, is := errors.AsType[*wire.StatusError](err); is {
		return s.ErrStatus.Code
	}
	if s, is := errors.AsType[*apierrors.StatusError](err); is {
		return s.ErrStatus.Code
	}
	return 0
}

// decoded returns the object of a review.
func decoded(t testing.TB, raw runtime.RawExtension) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(raw.Raw, &o); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return o
}

// text is an error as a client sees it.
func text(err error) string { return fmt.Sprintf("%d %v", codeOf(err), err) }
