package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
)

// Custom resources get a warning instead.
func TestBuiltInKindsRefuseFinalizersWithoutADomain(t *testing.T) {
	d := openServer(t, nil)
	const merge = "Content-Type: application/merge-patch+json"
	for _, c := range []struct {
		method, path, finalizers string
		code                     int
	}{
		{"POST", configMaps, `["plain"]`, http.StatusUnprocessableEntity},
		{"POST", configMaps, `["x.io/f","orphan","kubernetes"]`, http.StatusCreated},
		{"PATCH", configMaps + "/a", `["x.io/f","plain"]`, http.StatusUnprocessableEntity},
		{"PATCH", configMaps + "/a", `["x.io/g"]`, http.StatusOK},
		{"POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `["plain"]`, http.StatusCreated},
		{"POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", `["plain"]`, http.StatusCreated},
	} {
		body := `{"metadata":{"name":"a","finalizers":` + c.finalizers + `}}`
		header := ""
		if c.method == "PATCH" {
			header = merge
		}
		a := d.do(c.method, c.path, body, header)
		refused := strings.Contains(a.body,
			`Invalid value: \"plain\": name is neither a standard finalizer name nor is it fully qualified`)
		if a.StatusCode != c.code || refused != (c.code == http.StatusUnprocessableEntity) {
			t.Errorf("%s %s with %s: %d %s", c.method, c.path, c.finalizers, a.StatusCode, a.body)
		}
	}
}
