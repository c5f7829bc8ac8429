package gapless_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
	"github.com/gapless-io/gapless/status"
)

// TestReadsThatTheMirrorCannotAnswerAreTheirCallersOwn lists a resource that does not change while others
// do, and watches it from before the mirror began. Upstream answers such reads, and knows who asks.
func TestReadsThatTheMirrorCannotAnswerAreTheirCallersOwn(t *testing.T) {
	upstream := relaytest.New(t)
	upstream.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mirror}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mirror}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mirror}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: relay}]
`)
	var many strings.Builder // fewer would be compared, which answers as fast
	for i := range 120 {
		fmt.Fprintf(&many, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: other-%d, namespace: default}}\n", i)
	}
	upstream.Apply(t, many.String())
	_, before := upstream.Do(t, http.MethodGet, "/api/v1/namespaces/shop/configmaps/a", "")
	upstream.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: shop}}")
	cfg := upstream.Relay(t)
	cfg.CAData = upstream.RESTConfig().CAData
	r := startRelay(t, gapless.RelayConfig{Upstream: cfg, Memory: true, Resources: []string{"configmaps"}})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.CA())
	get := func(t *testing.T, c requester, path string) *http.Response {
		t.Helper()
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: c.certificates},
			ForceAttemptHTTP2: true,
		}
		t.Cleanup(transport.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+path, nil)
		if err != nil {
			t.Fatalf("make a request: %v", err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("round trip: %v", err)
		}
		return resp
	}
	waitUntil(t, func() error {
		resp := get(t, requester{token: "token-root"}, "/readyz")
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz is %s", resp.Status)
		}
		if len(upstream.Watches()) == 0 { // one that opens later proves by its first bookmark that the mirror is fresh
			return errors.New("the relay has no watch yet")
		}
		return nil
	})
	passed := func() string {
		resp := get(t, requester{token: "token-root"}, "/metrics")
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatalf("read to the end: %v", err)
		}
		for line := range strings.Lines(string(body)) {
			if strings.HasPrefix(line, `gapless_relay_lists_passed_total{resource="configmaps.v1"}`) {
				return line
			}
		}
		return ""
	}
	const list = "/api/v1/namespaces/shop/configmaps"
	for i, c := range []requester{
		{name: "jane by a token", token: "token-jane", code: http.StatusOK},
		{name: "jane by a certificate", certificates: []tls.Certificate{upstream.Certificate(t, "jane")}, code: http.StatusOK},
		{name: "joe by a token", token: "token-joe", code: http.StatusForbidden},
		{
			name: "joe by a certificate", certificates: []tls.Certificate{upstream.Certificate(t, "joe")},
			code: http.StatusForbidden,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := passed()
			upstream.Apply(t,
				fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: other-%d, namespace: shop}}", i))
			resp := get(t, c, list)
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != c.code {
				t.Fatalf("the list is %s %s (%v), want %d", resp.Status, body, err, c.code)
			}
			for _, name := range []string{"Audit-Id", "Cache-Control", "Content-Type"} {
				if n := len(resp.Header.Values(name)); n != 1 {
					t.Errorf("the answer has %d headers %s, want one: %v", n, name, resp.Header)
				}
			}
			if c.code == http.StatusOK {
				var reported status.Relay
				answer := get(t, requester{token: "token-root"}, status.RelayPath)
				defer func() { _ = answer.Body.Close() }()
				if err := json.NewDecoder(answer.Body).Decode(&reported); err != nil || len(reported.Resources) != 1 ||
					reported.Resources[0].ListsPassed == 0 {
					t.Errorf("the status is %+v, %v; want lists that were passed on", reported, err)
				}
			}
			if now := passed(); (now != was) != (c.code == http.StatusOK) {
				t.Errorf("%q became %q", was, now)
			}
			watch := get(t, c, list+"?watch=1&resourceVersion="+versionOf(t, before))
			defer func() { _ = watch.Body.Close() }()
			if watch.StatusCode != c.code {
				t.Fatalf("the watch from before the mirror is %s, want %d", watch.Status, c.code)
			}
			if c.code != http.StatusOK {
				return
			}
			var event struct {
				Type   string
				Object metav1.PartialObjectMetadata
			}
			timer := time.AfterFunc(20*time.Second, func() { _ = watch.Body.Close() })
			defer timer.Stop()
			if err := json.NewDecoder(watch.Body).Decode(&event); err != nil || event.Object.Name != "b" {
				t.Errorf("the watch from before the mirror begins with %+v, %v; want b", event, err)
			}
		})
	}
}

// requester is who sends a request, and the code of its answer.
type requester struct {
	name, token  string
	certificates []tls.Certificate
	code         int
}

// versionOf returns the resourceVersion of an object in JSON.
func versionOf(t *testing.T, object []byte) string {
	t.Helper()
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &o); err != nil || o.ResourceVersion == "" {
		t.Fatalf("%s: %v", object, err)
	}
	return o.ResourceVersion
}
