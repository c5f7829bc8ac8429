package gapless_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
	"github.com/gapless-io/gapless/status"
)

// outage is an upstream that publishes its CA, whose relay was stopped, and started again while it is away.
type outage struct {
	t        *testing.T
	upstream *relaytest.Upstream
	dir      string
	cfg      gapless.RelayConfig
	relay    *gapless.Relay
	stop     func()
	log      bytes.Buffer
	// certificates are those of users: upstream decides about each one by itself.
	certificates map[string]tls.Certificate
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{
		t: t, upstream: relaytest.New(t), dir: filepath.Join(t.TempDir(), "relay"), certificates: map[string]tls.Certificate{},
	}
	ca, err := yaml.Marshal(corev1.ConfigMap{Data: map[string]string{"client-ca-file": string(o.upstream.RESTConfig().CAData)}})
	if err != nil {
		t.Fatalf("encode as YAML: %v", err)
	}
	o.upstream.Apply(t,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extension-apiserver-authentication, namespace: kube-system}\n"+
			strings.ReplaceAll(string(ca), "metadata: {}\n", ""))
	o.upstream.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mirror}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mirror}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mirror}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: relay}]
`)
	o.cfg = gapless.RelayConfig{Upstream: o.upstream.Relay(t), DataDir: o.dir, Resources: []string{"configmaps"}}
	o.cfg.Upstream.CAData = o.upstream.RESTConfig().CAData
	o.start()
	return o
}

func (o *outage) start() {
	o.t.Helper()
	o.cfg.Logger = slog.New(slog.NewTextHandler(&o.log, nil))
	o.relay, o.stop = runRelay(o.t, o.cfg)
}

// again stops the relay, cuts it off, and starts it again.
func (o *outage) again(between func()) {
	o.t.Helper()
	o.stop()
	o.log.Reset()
	o.upstream.Cut()
	between()
	o.start()
}

// answerOf is what a request got.
type answerOf struct {
	code   int
	header http.Header
	body   string
}

// get sends a request, by a token ("token-…") or by the certificate of a user.
func (o *outage) get(as, path string, groups ...string) answerOf {
	o.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.relay.CA())
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.relay.URL()+path, nil)
	if err != nil {
		o.t.Fatalf("make a request: %v", err)
	}
	if strings.HasPrefix(as, "token-") {
		req.Header.Set("Authorization", "Bearer "+as)
	} else if as != "" {
		if _, has := o.certificates[as]; !has {
			o.certificates[as] = o.upstream.Certificate(o.t, as, groups...)
		}
		config.Certificates = []tls.Certificate{o.certificates[as]}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		o.t.Fatalf("round trip: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatalf("read to the end: %v", err)
	}
	return answerOf{resp.StatusCode, resp.Header, string(body)}
}

// want fails unless a request gets a code. It returns the answer.
func (o *outage) want(code int, as, path string, groups ...string) answerOf {
	o.t.Helper()
	got := o.get(as, path, groups...)
	if got.code != code {
		o.t.Errorf("GET %s as %s is %d %s, want %d", path, as, got.code, got.body, code)
	}
	return got
}

const (
	shopMaps = "/api/v1/namespaces/shop/configmaps"
	lastMaps = shopMaps + "?resourceVersion=0"
)

// read makes requests whose answers the relay may keep.
func (o *outage) read() {
	o.t.Helper()
	waitUntil(o.t, func() error {
		if got := o.get("token-root", "/readyz"); got.code != http.StatusOK {
			return fmt.Errorf("/readyz is %d %s", got.code, got.body)
		}
		return nil
	})
	for _, as := range []string{"token-jane", "jane"} {
		for _, path := range []string{lastMaps, "/api/v1"} {
			o.want(http.StatusOK, as, path)
		}
	}
	o.want(http.StatusForbidden, "token-joe", lastMaps)
}

// TestARelayThatStartsWhileUpstreamIsAwayServesItsMirror to callers that it knows, for as long as if it had run on.
func TestARelayThatStartsWhileUpstreamIsAwayServesItsMirror(t *testing.T) {
	o := newOutage(t)
	o.read()
	o.again(func() {
		for _, name := range []string{"client-ca", "resources", "documents", "decisions"} {
			path := filepath.Join(o.dir, "upstream", name)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("read a file: %v", err)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v, want mode 0600", name, info, err)
			}
			if bytes.Contains(content, []byte("token-jane")) {
				t.Errorf("%s has a token: %s", name, content)
			}
		}
	})
	for _, as := range []string{"token-jane", "jane"} {
		got := o.want(http.StatusOK, as, lastMaps)
		if !strings.Contains(got.body, `"name":"a"`) || got.header.Get("Age") == "" {
			t.Errorf("the list is %s, with the headers %v; want a, and how old it is", got.body, got.header)
		}
		if got := o.want(http.StatusServiceUnavailable, as, shopMaps); !strings.Contains(got.body, "resourceVersion=0") {
			t.Errorf("the most recent state: %s, want what can be asked for", got.body)
		}
		o.want(http.StatusOK, as, "/api/v1")
	}
	o.want(http.StatusForbidden, "token-joe", lastMaps)
	o.want(http.StatusServiceUnavailable, "token-watcher", lastMaps) // was never here
	o.want(http.StatusServiceUnavailable, "mary", lastMaps)
	if got := o.want(http.StatusOK, "jane", "/readyz?verbose"); !strings.Contains(got.body, "[+]mirror-sync ok") {
		t.Errorf("/readyz is %s", got.body)
	}
	// gapless status works, for a caller that upstream always allows it.
	o.want(http.StatusServiceUnavailable, "jane", status.RelayPath)
	got := o.want(http.StatusOK, "admin", status.RelayPath, "system:masters")
	var reported status.Relay
	if err := json.Unmarshal([]byte(got.body), &reported); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	if reported.Away == "" || len(reported.Resources) != 1 || reported.Resources[0].Objects < 2 ||
		reported.Resources[0].LastContact.IsZero() {
		t.Errorf("the status is %+v, want configmaps, when upstream last answered, and why it does not", reported)
	}
	o.upstream.Mend()
	waitUntil(t, func() error {
		if got := o.get("token-watcher", lastMaps); got.code != http.StatusForbidden { // may watch only
			return fmt.Errorf("after the outage a list is %d %s", got.code, got.body)
		}
		return nil
	})
}

// TestServeStaleServesTheMostRecentStateWithAWarning, if it was asked for.
func TestServeStaleServesTheMostRecentStateWithAWarning(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	o := newOutage(t)
	o.read()
	const watch = shopMaps + "?watch=1&timeoutSeconds=1"
	o.want(http.StatusOK, "jane", watch+"&resourceVersion=0")
	o.cfg.ServeStale = true
	o.again(func() {})
	for _, path := range []string{
		shopMaps, shopMaps + "?limit=500", watch,
		watch + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
	} {
		got := o.want(http.StatusOK, "jane", path)
		if w := got.header.Get("Warning"); !strings.HasPrefix(w, "299 - ") || !strings.Contains(w, "seconds old") ||
			got.header.Get("Age") == "" {
			t.Errorf("the headers are %v, want a warning that says how old the list is", got.header)
		}
		if !strings.Contains(got.body, `"name":"a"`) {
			t.Errorf("the list is %s", got.body)
		}
	}
	o.upstream.Mend()
	waitUntil(t, func() error {
		if got := o.get("jane", shopMaps); got.code != http.StatusOK || got.header.Get("Warning") != "" {
			return fmt.Errorf("after the outage a list is %d with %v", got.code, got.header)
		}
		return nil
	})
}

// TestARelayStartsWithoutWhatItCannotUse has files that are damaged: it says so, and what is missing.
func TestARelayStartsWithoutWhatItCannotUse(t *testing.T) {
	o := newOutage(t)
	o.read()
	o.again(func() {
		for _, name := range []string{"client-ca", "resources", "documents", "decisions"} {
			path := filepath.Join(o.dir, "upstream", name)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("read a file: %v", err)
			}
			if err := os.WriteFile(path, content[:len(content)-1], 0o600); err != nil {
				t.Fatalf("write a file: %v", err)
			}
		}
	})
	o.want(http.StatusInternalServerError, "", "/readyz")
	o.stop()
	for _, name := range []string{"client-ca", "resources", "documents", "decisions"} {
		if want := filepath.Join("upstream", name) + ": it is damaged"; !strings.Contains(o.log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, o.log.String())
		}
	}
	if want := "upstream's resources are not known, and none are kept from before"; !strings.Contains(o.log.String(), want) {
		t.Errorf("the log lacks %q:\n%s", want, o.log.String())
	}
}
