package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// wrapped is a protobuf body as client-go sends it.
func wrapped(t *testing.T, apiVersion, kind string, o interface{ Marshal() ([]byte, error) }) string {
	t.Helper()
	raw, err := o.Marshal()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}
	body, err := envelope.Marshal()
	if err != nil {
		t.Fatalf("encode the envelope: %v", err)
	}
	return "k8s\x00" + string(body)
}

func TestSubresourcesAcceptTheirKindsInProtobuf(t *testing.T) {
	d := openServer(t, nil)
	const pods = "/api/v1/namespaces/default/pods"
	const protobuf = "Content-Type: application/vnd.kubernetes.protobuf"
	if r := d.do(http.MethodPost, pods,
		`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`); r.StatusCode != http.StatusCreated {
		t.Fatalf("create a pod: %d %s", r.StatusCode, r.body)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for _, c := range []struct {
		path, body string
		code       int
	}{
		{"/binding", wrapped(t, "v1", "Binding", binding), http.StatusCreated},
		{"/binding", wrapped(t, "v1", "Binding", binding), http.StatusConflict},
		{"/binding", wrapped(t, "policy/v1", "Eviction", eviction), http.StatusBadRequest},
		{"/eviction", wrapped(t, "policy/v1", "Eviction", eviction), http.StatusCreated},
		{"/eviction", wrapped(t, "policy/v1beta1", "Eviction", eviction), http.StatusCreated},
	} {
		if r := d.do(http.MethodPost, pods+"/p"+c.path, c.body, protobuf); r.StatusCode != c.code ||
			!strings.HasPrefix(r.body, `{"kind":"Status"`) {
			t.Errorf("POST %s: %d %s, want %d and a Status", c.path, r.StatusCode, r.body, c.code)
		}
	}
}

func TestSubresourcesRefuseOtherVerbs(t *testing.T) {
	d := openServer(t, nil)
	const pod = "/api/v1/namespaces/default/pods/p"
	for _, c := range []struct{ method, path string }{
		{http.MethodPost, pod},
		{http.MethodPost, pod + "/status"},
		{http.MethodPost, pod + "/ephemeralcontainers"},
		{http.MethodGet, pod + "/binding"},
		{http.MethodPut, pod + "/eviction"},
		{http.MethodDelete, pod + "/eviction"},
		{http.MethodGet, "/api/v1/namespaces/default/finalize"},
		{http.MethodPatch, "/api/v1/namespaces/default/finalize"},
		{http.MethodGet, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"},
		{http.MethodGet, "/api/v1/namespaces/default/bindings"},
		{http.MethodDelete, "/api/v1/namespaces/default/bindings"},
		{http.MethodPost, "/api/v1/bindings"},
	} {
		if r := d.do(c.method, c.path, "{}"); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %d %s, want 405", c.method, c.path, r.StatusCode, r.body)
		}
	}
}
