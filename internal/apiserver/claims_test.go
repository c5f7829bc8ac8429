package apiserver_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestAFrontProxysUserIsRefused sends each kind of request with the administrator's
// certificate and a header that names another user.
func TestAFrontProxysUserIsRefused(t *testing.T) {
	d := openServer(t, nil)
	d.create("a", "")
	before := d.do("GET", configMaps, "").body
	const body = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"b"}}`
	for _, header := range []string{
		"X-Remote-User: jane", "X-Remote-Group: system:masters", "X-Remote-Uid: 7", "X-Remote-Extra-Scopes: a", "X-Remote-User: ",
	} {
		name, _, _ := strings.Cut(header, ":")
		for _, c := range []struct{ method, path, body string }{
			{"GET", configMaps, ""},
			{"GET", configMaps + "/a", ""},
			{"GET", configMaps + "?watch=1", ""},
			{"POST", configMaps, body},
			{"PUT", configMaps + "/a", body},
			{"PATCH", configMaps + "/a", "{}"},
			{"DELETE", configMaps + "/a", ""},
			{"DELETE", configMaps, ""},
			{"GET", "/api", ""},
			{"GET", "/metrics", ""},
			{"GET", "/version", ""},
			{"GET", "/livez", ""},
			{"POST", "/gapless/v1/compact", "{}"},
			{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}"},
		} {
			for _, client := range []*http.Client{d.h1, d.h2} {
				a := d.by(client, c.method, c.path, c.body, header)
				s := tree(t, a.body)
				message, _ := s["message"].(string)
				if a.StatusCode != http.StatusForbidden || s["kind"] != "Status" || s["reason"] != "Forbidden" ||
					!strings.Contains(message, "the header "+name) {
					t.Errorf("%s %s with %s: %d %.300s", c.method, c.path, header, a.StatusCode, a.body)
				}
			}
		}
		_, from := d.raw("GET "+configMaps+"?watch=true HTTP/1.1", fabric8+header+"\r\n")
		if resp := answerOf(t, from); resp.StatusCode != http.StatusForbidden {
			t.Errorf("a WebSocket with %s: %s", header, resp.Status)
		}
		if a := d.by(d.client(2), "GET", configMaps, "", header); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s without a certificate: %d", header, a.StatusCode)
		}
	}
	if after := d.do("GET", configMaps, "").body; after != before {
		t.Errorf("the state was changed: %s", after)
	}
}
