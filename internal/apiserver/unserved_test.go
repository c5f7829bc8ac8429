package apiserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestUnservedPathsGetTheReason has each path that a client of a cluster may ask
// for in vain, with the end of the message.
func TestUnservedPathsGetTheReason(t *testing.T) {
	d := openServer(t, nil)
	runs(t, d)
	const (
		pod        = "/api/v1/namespaces/default/pods/p"
		containers = ": no containers run here, this server only keeps objects"
		proxies    = ": this server sends no request on to pods, services or nodes"
		aggregated = ": no APIService names a server that serves it"
	)
	for _, c := range []struct{ method, path, details, want string }{
		{"POST", pod + "/exec?command=ls", "pods p", "pods/exec is not served in v1" + containers},
		{"GET", pod + "/exec?command=ls", "pods p", "pods/exec is not served in v1" + containers},
		{"POST", pod + "/attach", "pods p", "pods/attach is not served in v1" + containers},
		{"POST", pod + "/portforward", "pods p", "pods/portforward is not served in v1" + containers},
		{"GET", pod + "/log?follow=true", "pods p", "pods/log is not served in v1" + containers},
		{"GET", pod + "/proxy", "pods p", "pods/proxy is not served in v1" + proxies},
		{"PUT", pod + "/proxy/a/b/c", "pods p", "pods/proxy is not served in v1" + proxies},
		{"GET", "/api/v1/namespaces/default/services/s/proxy/a", "services s", "services/proxy is not served in v1" + proxies},
		{"GET", "/api/v1/nodes/n/proxy/stats/summary", "nodes n", "nodes/proxy is not served in v1" + proxies},
		{
			"GET", "/apis/metrics.k8s.io/v1beta1/nodes", "nodes.metrics.k8s.io ",
			"the API group metrics.k8s.io is not served" + aggregated,
		},
		{"GET", "/apis/metrics.k8s.io/v1beta1", ".metrics.k8s.io ", "the API group metrics.k8s.io is not served" + aggregated},
		{
			"GET", "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies",
			"mutatingadmissionpolicies.admissionregistration.k8s.io ",
			"admissionregistration.k8s.io/v1beta1 is not served, there is v1",
		},
		{"GET", pod + "/status/b", "pods p", "there is nothing below pods/status"},
		{"GET", "/api/v1/namespaces/default/unicorns/u", "unicorns u", "unicorns is not served in v1"},
		{"POST", "/apis/apps/v1/namespaces/default/unicorns", "unicorns.apps ", "unicorns is not served in apps/v1"},
		{
			"DELETE", "/apis/apps/v1beta1/namespaces/default/deployments/d", "deployments.apps d",
			"apps/v1beta1 is not served, there is v1",
		},
		{"GET", "/api/v7", " ", "v7 is not served, there is v1"},
		{"GET", "/apis/nope", ".nope ", "the API group nope is not served"},
		{"GET", "/apis/nope/v1/namespaces/n/things/t", "things.nope t", "the API group nope is not served"},
		{"GET", "/api/v1/configmaps/a", "configmaps a", "configmaps are in namespaces, and the path names none"},
		{"GET", "/api/v1/namespaces/default/nodes/n", "nodes n", "nodes are in no namespace, and the path names one"},
		{"GET", "/api/v1/watch/namespaces/default/pods/p/status", "pods p", "the path is too long for a watch"},
		{"GET", "/api/v1/namespaces//configmaps", " ", "a segment of the path is empty"},
		{"GET", "/swagger-2.0.0.pb-v1", " ", "is not served, only /openapi/v2 and /openapi/v3"},
		{"GET", "/logs/kubelet.log", " ", containers},
		{"GET", "/debug/pprof/heap", " ", "profiles are at the address of --debug-listen"},
		{"GET", "/.well-known/openid-configuration", " ", ": the issuer of service account tokens is not an https URL"},
		{"GET", "/openid/v1/jwks", " ", ": the issuer of service account tokens is not an https URL"},
	} {
		for _, client := range []*http.Client{d.h1, d.h2} {
			a := d.by(client, c.method, c.path, "")
			s := tree(t, a.body)
			message, _ := s["message"].(string)
			if a.StatusCode != http.StatusNotFound || s["kind"] != "Status" || s["reason"] != "NotFound" ||
				!strings.HasPrefix(message, "the server could not find the requested resource: ") ||
				!strings.HasSuffix(message, c.want) {
				t.Errorf("%s %s: %d %s\nwant %s", c.method, c.path, a.StatusCode, a.body, c.want)
			}
			details, _ := s["details"].(map[string]any)
			text := func(name string) string { v, _ := details[name].(string); return v }
			got := text("kind") + " " + text("name")
			if group := text("group"); group != "" {
				got = text("kind") + "." + group + " " + text("name")
			}
			if got != c.details {
				t.Errorf("%s %s: details %q, want %q", c.method, c.path, got, c.details)
			}
		}
	}
	for path, want := range map[string]string{"/nope": `"paths"`, "/livez/nope": "404 page not found"} { // as upstream
		if a := d.do("GET", path, ""); a.StatusCode != http.StatusNotFound || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	for _, path := range []string{"/api/v1", "/apis/apps", "/apis/apps/v1", "/apis/nope/v1"} {
		if a := d.do("POST", path, "{}"); a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d %s", path, a.StatusCode, a.body)
		}
	}
}

// TestSubresourcesThatUpstreamHasNotGetItsMessage is about what tests of operators compare, word
// by word, where they write the status of kinds that may have none.
func TestSubresourcesThatUpstreamHasNotGetItsMessage(t *testing.T) {
	d := openServer(t, nil)
	for path, why := range map[string]string{
		"/api/v1/namespaces/default/pods/p/nope":          "pods/nope is not served in v1",
		configMaps + "/a/scale":                           "configmaps/scale is not served in v1",
		"/apis/storage.k8s.io/v1/storageclasses/a/status": "storageclasses/status is not served in storage.k8s.io/v1",
	} {
		for _, method := range []string{"GET", "PUT"} {
			a := d.do(method, path, "{}")
			s := tree(t, a.body)
			details, _ := s["details"].(map[string]any)
			causes, _ := details["causes"].([]any)
			if a.StatusCode != http.StatusNotFound || s["reason"] != "NotFound" ||
				s["message"] != "the server could not find the requested resource" ||
				len(causes) != 1 || causes[0].(map[string]any)["message"] != why {
				t.Errorf("%s %s: %d %s", method, path, a.StatusCode, a.body)
			}
		}
	}
}

// TestUpgradeAtAnUnservedPathGetsTheReason is kubectl exec, which tries a
// WebSocket and then SPDY.
func TestUpgradeAtAnUnservedPathGetsTheReason(t *testing.T) {
	d := openServer(t, nil)
	runs(t, d)
	for _, c := range []struct{ method, headers string }{
		{"GET", fabric8 + "Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n"},
		{
			"POST",
			"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n",
		},
	} {
		_, from := d.raw(c.method+" /api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true HTTP/1.1", c.headers)
		resp := answerOf(t, from)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "no containers run here") {
			t.Errorf("%s: %s %s, %v", c.method, resp.Status, body, err)
		}
	}
}

// runs makes a pod p that runs on a node n, and a service s before it.
func runs(t *testing.T, d *testServer) {
	t.Helper()
	for path, body := range map[string]string{
		"/api/v1/nodes": `{"metadata":{"name":"n"}}`,
		"/api/v1/namespaces/default/pods": `{"metadata":{"name":"p"},` +
			`"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`,
		"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": `{"metadata":{"name":"s","labels":` +
			`{"kubernetes.io/service-name":"s"}},"addressType":"IPv4","endpoints":[]}`,
	} {
		if a := d.do("POST", path, body); a.StatusCode != http.StatusCreated {
			t.Fatalf("POST %s: %d %s", path, a.StatusCode, a.body)
		}
	}
	a := d.do("PATCH", "/api/v1/namespaces/default/pods/p/status", `{"status":{"podIP":"10.0.0.7","podIPs":[{"ip":"10.0.0.7"}]}}`,
		"Content-Type: application/merge-patch+json")
	if a.StatusCode != http.StatusOK {
		t.Fatalf("write the status: %d %s", a.StatusCode, a.body)
	}
}

// TestWhatDoesNotRunIsRefusedAsUpstreamRefusesIt before it connects.
func TestWhatDoesNotRunIsRefusedAsUpstreamRefusesIt(t *testing.T) {
	d := openServer(t, nil)
	const pods = "/api/v1/namespaces/default/pods"
	for name, spec := range map[string]string{
		"one": `{"containers":[{"name":"c","image":"i"}]}`,
		"two": `{"initContainers":[{"name":"a","image":"i"}],"containers":[{"name":"b","image":"i"},{"name":"c","image":"i"}]}`,
		"far": `{"nodeName":"gone","containers":[{"name":"c","image":"i"}]}`,
	} {
		if a := d.do("POST", pods, `{"metadata":{"name":"`+name+`"},"spec":`+spec+`}`); a.StatusCode != http.StatusCreated {
			t.Fatalf("make %s: %d %s", name, a.StatusCode, a.body)
		}
	}
	a := d.do("POST", "/api/v1/namespaces/default/services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`)
	if a.StatusCode != http.StatusCreated {
		t.Fatalf("make a service: %d %s", a.StatusCode, a.body)
	}
	for _, c := range []struct {
		method, path string
		code         int
		message      string
	}{
		{"POST", pods + "/none/exec?command=ls", 404, `pods "none" not found`},
		{"GET", pods + "/none/log", 404, `pods "none" not found`},
		{"GET", pods + "/one/exec?command=ls", 400, "pod one does not have a host assigned"},
		{"POST", pods + "/one/attach", 400, "pod one does not have a host assigned"},
		{"POST", pods + "/two/portforward", 400, "pod two does not have a host assigned"},
		{"GET", pods + "/two/log", 400, "a container name must be specified for pod two, choose one of: [a b c]"},
		{"GET", pods + "/two/log?container=d", 400, "container d is not valid for pod two"},
		{"GET", pods + "/far/log", 404, `pods "gone" not found`},
		{"GET", pods + "/one/log?container=c", 204, ""},
		{"PUT", pods + "/one/proxy/a/b", 400, "address not allowed"},
		{"GET", pods + "/none:80/proxy", 404, `pods "none" not found`},
		{"GET", pods + "/ftp:one:80/proxy", 400, `invalid pod request "ftp:one:80"`},
		{"GET", "/api/v1/namespaces/default/services/s:81/proxy", 503, `no service port 81 found for service "s"`},
		{"GET", "/api/v1/namespaces/default/services/s:80/proxy/a", 503, `no endpoints available for service "s"`},
		{"GET", "/api/v1/namespaces/default/services/none/proxy", 503, `no endpoints available for service "none"`},
		{"GET", "/api/v1/namespaces/default/services/none:80/proxy", 404, `services "none" not found`},
		{"GET", "/api/v1/nodes/n/proxy/metrics", 404, `nodes "n" not found`},
	} {
		a := d.do(c.method, c.path, "")
		var message string
		if a.StatusCode != http.StatusNoContent {
			message, _ = tree(t, a.body)["message"].(string)
		}
		if a.StatusCode != c.code || message != c.message {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, a.StatusCode, a.body, c.code, c.message)
		}
	}
}
