package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// pod makes a pod.
func (s *server) pod(name string) {
	s.t.Helper()
	if _, err := s.create(s.at("", "v1", "pods", "default"),
		`{"metadata":{"name":"`+name+`"},"spec":{"containers":[{"name":"c","image":"i"}]}}`); err != nil {
		s.t.Fatalf("create: %v", err)
	}
}

// found is an object as it is stored; "" if there is none.
func (s *server) found(resource, name string) string {
	o := s.Find(kinds.GroupResource{Resource: resource}, wire.Key{Namespace: "default", Name: name})
	if o == nil {
		return ""
	}
	return string(o.JSON())
}

// post does a POST to a subresource of a pod.
func (s *server) post(ctx context.Context, pod, subresource, body string) error {
	_, err := s.Create(ctx, s.at("", "v1", "pods", "default", pod, subresource), []byte(body), metav1.CreateOptions{})
	return err
}

const (
	evicts = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`
	binds  = `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`
)

func TestBindingsAndEvictionsAreRefusedAndChanged(t *testing.T) {
	s, h := start(t), newHook(t)
	s.pod("p")
	const rule = `"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/binding","pods/eviction"],` +
		`"operations":["CREATE"]}]`
	s.configure("Mutating", "m", h.webhook("m.example.com", rule))
	h.says(admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "no"}})
	for subresource, body := range map[string]string{"binding": binds, "eviction": evicts} {
		if err := s.post(t.Context(), "p", subresource,
			body); text(err) != `400 admission webhook "m.example.com" denied the request: no` {
			t.Errorf("%s: %s", subresource, text(err))
		}
	}
	if o := s.found("pods", "p"); o == "" || strings.Contains(o, "nodeName") {
		t.Errorf("a refused binding or eviction has changed the pod: %s", o)
	}
	h.patches(`[{"op":"replace","path":"/metadata/name","value":"other"}]`)
	s.pod("other")
	for subresource, body := range map[string]string{"binding": binds, "eviction": evicts} {
		if err := s.post(t.Context(), "p", subresource, body); codeOf(err) != 400 ||
			!strings.Contains(text(err), "name in URL does not match name in") {
			t.Errorf("%s of another pod: %s", subresource, text(err))
		}
	}
	h.heard()
	h.patches(`[{"op":"replace","path":"/target/name","value":"chosen"}]`)
	if err := s.post(t.Context(), "p", "binding", binds); err != nil {
		t.Errorf("post: %v", err)
	}
	if o := s.found("pods", "p"); !strings.Contains(o, `"nodeName":"chosen"`) {
		t.Errorf("%s", o)
	}
	h.instead(nil)
	if err := s.post(t.Context(), "p", "eviction", evicts); err != nil {
		t.Errorf("post: %v", err)
	}
	asked := h.heard()
	if len(asked) != 2 || asked[0].Kind.Kind != "Binding" || asked[1].Kind.Kind != "Eviction" ||
		asked[1].SubResource != "eviction" || asked[1].Name != "p" {
		t.Errorf("%+v", asked)
	}
}

// TestAClientThatLeavesWaitsForNoWebhook has a webhook that answers when its caller has left.
func TestAClientThatLeavesWaitsForNoWebhook(t *testing.T) {
	for _, kind := range []string{"Mutating", "Validating"} {
		for _, policy := range []string{"Fail", "Ignore"} {
			t.Run(kind+" "+policy, func(t *testing.T) {
				s, h := start(t), newHook(t)
				s.configure(kind, "c", h.webhook("c.example.com", onMaps+`,"timeoutSeconds":30,"failurePolicy":"`+policy+`"`))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				h.instead(func(_ http.ResponseWriter, r *http.Request) {
					cancel()
					<-r.Context().Done()
				})
				if _, err := s.Create(ctx, s.maps(""), []byte(`{"metadata":{"name":"a"}}`), metav1.CreateOptions{}); err == nil {
					t.Error("the write is answered as if it was done")
				}
				if o := s.found("configmaps", "a"); o != "" {
					t.Errorf("it is stored: %s", o)
				}
			})
		}
	}
}

func TestCallsAreCountedAsUpstream(t *testing.T) {
	s, h := start(t), newHook(t)
	s.configure("Mutating", "a", h.webhook("m.example.com", onMaps+`,"failurePolicy":"Ignore"`))
	s.configure("Validating", "a", h.webhook("v.example.com", onMaps))
	h.instead(func(w http.ResponseWriter, r *http.Request) {
		review := reviewOf(r)
		switch review.Request.Name {
		case "refused":
			reply(w, review, admissionv1.AdmissionResponse{Result: &metav1.Status{Code: 418}})
		case "broken":
			http.Error(w, "oops", http.StatusBadGateway)
		default:
			reply(w, review, admissionv1.AdmissionResponse{Allowed: true})
		}
	})
	for name, want := range map[string]int32{"fine": 200, "refused": 418, "broken": 500} {
		if _, err := s.createMap(name); codeOf(err) != want {
			t.Errorf("%s: %s", name, text(err))
		}
	}
	const prefix = "apiserver_admission_webhook_"
	want := []string{
		prefix + "admission_duration_seconds m.example.com CREATE false admit 2",
		prefix + "admission_duration_seconds m.example.com CREATE true admit 1",
		prefix + "admission_duration_seconds v.example.com CREATE false validating 1",
		prefix + "admission_duration_seconds v.example.com CREATE true validating 1",
		prefix + "fail_open_count m.example.com admit 1",
		prefix + "rejection_count no_error m.example.com CREATE 418 admit 1",
		prefix + "rejection_count calling_webhook_error v.example.com CREATE 502 validating 1",
		prefix + "request_total 200 m.example.com CREATE false admit 1",
		prefix + "request_total 418 m.example.com CREATE true admit 1",
		prefix + "request_total 502 m.example.com CREATE false admit 1",
		prefix + "request_total 200 v.example.com CREATE false validating 1",
		prefix + "request_total 502 v.example.com CREATE true validating 1",
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s.plugin)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather the metrics: %v", err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			line := family.GetName()
			for _, l := range m.GetLabel() {
				line += " " + l.GetValue()
			}
			got = append(got, fmt.Sprint(line, " ", m.GetCounter().GetValue()+float64(m.GetHistogram().GetSampleCount())))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
