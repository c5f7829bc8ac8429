package access_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/refusal"
	"github.com/gapless-io/gapless/internal/relay/access"
	"github.com/gapless-io/gapless/internal/relay/relaytest"
	"github.com/gapless-io/gapless/internal/wire"
)

// open returns an Access in front of an upstream.
func open(t *testing.T, u *relaytest.Upstream, cfg access.Config) *access.Access {
	t.Helper()
	cfg.Upstream = u.Relay(t)
	a, err := access.New(cfg)
	if err != nil {
		t.Fatalf("make a access: %v", err)
	}
	t.Cleanup(a.CloseIdle)
	return a
}

// lasting uses decisions for longer than a test lasts.
func lasting(mode access.Mode) access.Config {
	return access.Config{Mode: mode, Allowed: time.Hour, Denied: time.Hour, Stale: time.Hour}
}

// asking asks for each request.
func asking(mode access.Mode, stale time.Duration) access.Config {
	return access.Config{Mode: mode, Stale: stale}
}

// request is a request with a token and further headers, in pairs of name and value.
func request(t *testing.T, token string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	if err != nil {
		t.Fatalf("make a request: %v", err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func callerOf(t *testing.T, a *access.Access, token string, headers ...string) user.Info {
	t.Helper()
	u, err := a.Authenticate(request(t, token, headers...))
	if err != nil {
		t.Fatalf("%s: %v", token, err)
	}
	return u
}

// asked returns how many questions upstream was asked, by the metrics.
func asked(t *testing.T, a *access.Access) int {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(a)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather the metrics: %v", err)
	}
	n := 0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "gapless_relay_reviews_total" {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

// code is that of the answer for an error, 200 for none.
func code(err error) int { return int(wire.StatusOf(err).Code) }

// configMaps are attributes of a request for the ConfigMaps of shop.
func configMaps(verb string) auth.Attributes {
	return auth.Attributes{Verb: verb, Resource: schema.GroupResource{Resource: "configmaps"}, Version: "v1", Namespace: "shop"}
}

// TestCallersAreWhoTheyAreUpstream asks over TLS, as callers do.
func TestCallersAreWhoTheyAreUpstream(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, lasting(access.Reviews))
	front := relaytest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		certified, err := a.Certificate(r)
		if err != nil {
			refusal.Write(w, err)
			return
		}
		who, err := a.Authenticate(r)
		if err != nil {
			refusal.Write(w, err)
			return
		}
		if certified != nil && certified.GetName() != who.GetName() {
			t.Errorf("the certificate names %s, the request %s", certified.GetName(), who.GetName())
		}
		fmt.Fprintf(w, "%s%s%s%s", who.GetName(), who.GetGroups(), r.Header["Authorization"], r.Header["Sec-Websocket-Protocol"])
	}), u.ClientCA(t), nil)
	jane := u.Certificate(t, "jane", "editors")
	socket := func(token string) string {
		return "Sec-WebSocket-Protocol:v4.channel.k8s.io, base64url.bearer.authorization.k8s.io." +
			base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	for name, c := range map[string]struct {
		cert    *tls.Certificate
		headers string // "name:value", separated by |
		want    string
	}{
		"nobody":           {nil, "", "401"},
		"a token":          {nil, "Authorization:Bearer token-lister", "lister[lister system:authenticated][][]"},
		"an unknown token": {nil, "Authorization:Bearer guess", "401"},
		"an empty token":   {nil, "Authorization:Bearer ", "401"},
		"a password":       {nil, "Authorization:Basic amFuZTpqYW5l", "401"},
		"a token in a WebSocket": {
			nil, "Connection:Upgrade|Upgrade:websocket|" + socket("token-joe"), "joe[system:authenticated][][v4.channel.k8s.io]",
		},
		"a token of a WebSocket elsewhere": {nil, socket("token-joe"), "401"},
		"an unknown token in a WebSocket":  {nil, "Connection:Upgrade|Upgrade:websocket|" + socket("guess"), "401"},
		"a certificate":                    {&jane, "", "jane[editors system:authenticated][][]"},
		"a certificate and a token":        {&jane, "Authorization:Bearer token-root", "jane[editors system:authenticated][][]"},
		"a certificate and a bad token":    {&jane, "Authorization:Bearer guess", "jane[editors system:authenticated][][]"},
		"a user of a front proxy":          {nil, "X-Remote-User:root|X-Remote-Group:system:masters", "403"},
		"a token, and such a user":         {nil, "Authorization:Bearer token-joe|X-Remote-User:root", "403"},
		"a certificate, and such a group":  {&jane, "X-Remote-Group:system:masters", "403"},
	} {
		var certs []tls.Certificate
		if c.cert != nil {
			certs = append(certs, *c.cert)
		}
		r := request(t, "")
		r.URL.Scheme, r.URL.Host = "https", front.Listener.Addr().String()
		for header := range strings.SplitSeq(c.headers, "|") {
			if name, value, has := strings.Cut(header, ":"); has {
				r.Header.Set(name, value)
			}
		}
		resp, err := front.Client(t, "HTTP/1.1", certs...).Do(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("read to the end: %v", err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			got = []byte(fmt.Sprint(resp.StatusCode))
		}
		if string(got) != c.want {
			t.Errorf("%s is %s, want %s", name, got, c.want)
		}
	}
}

// TestDecisionsAreUpstreams compares each answer with that of upstream to the user itself.
func TestDecisionsAreUpstreams(t *testing.T) {
	u := relaytest.New(t)
	for _, mode := range []access.Mode{access.Reviews, access.Passthrough} {
		a := open(t, u, lasting(mode))
		for _, name := range []string{"jane", "joe", "lister", "watcher", "root"} {
			for path, attributes := range map[string]auth.Attributes{
				"/api/v1/namespaces/shop/configmaps":                          configMaps("list"),
				"/api/v1/namespaces/shop/configmaps?watch=1&timeoutSeconds=1": configMaps("watch"),
				"/api/v1/namespaces/shop/configmaps?fieldSelector=metadata.name%3Da": named(configMaps("list"), "a",
					"metadata.name=a"),
				"/api/v1/namespaces/shop/configmaps/a":    named(configMaps("get"), "a", ""),
				"/api/v1/namespaces/shop/configmaps/none": named(configMaps("get"), "none", ""),
				"/api/v1/namespaces/shop": {
					Verb: "get", Resource: schema.GroupResource{Resource: "namespaces"}, Version: "v1", Namespace: "shop",
					Name: "shop",
				},
				"/api/v1/secrets": {
					Verb: "list", Resource: schema.GroupResource{Resource: "secrets"}, Version: "v1",
				},
				"/apis/apps/v1/deployments": {
					Verb: "list", Resource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Version: "v1",
				},
				"/api":     {Verb: "get", Path: "/api"},
				"/metrics": {Verb: "get", Path: "/metrics"},
				"/api/v1/watch/namespaces/shop/configmaps/a?timeoutSeconds=1": named(configMaps("watch"), "a", ""),
				"/api/v1/namespaces/shop/configmaps?labelSelector=a+in+%28b%29&resourceVersion=0": labelled(configMaps("list"),
					"a in (b)"),
			} {
				got := wire.StatusOf(a.Authorize(t.Context(), callerOf(t, a, "token-"+name), attributes))
				want := directly(t, u, name, path)
				if want.Code == http.StatusForbidden && (got.Message != want.Message || got.Code != want.Code) ||
					want.Code != http.StatusForbidden && got.Code != http.StatusOK {
					t.Errorf("%s: %s gets %s: %d %s, upstream: %d %s",
						mode, name, path, got.Code, got.Message, want.Code, want.Message)
				}
			}
		}
	}
}

func named(a auth.Attributes, name, selector string) auth.Attributes {
	a.Name, a.FieldSelector = name, selector
	return a
}

func labelled(a auth.Attributes, selector string) auth.Attributes {
	a.LabelSelector = selector
	return a
}

// directly returns how upstream answers a user with a token.
func directly(t *testing.T, u *relaytest.Upstream, name, path string) metav1.Status {
	t.Helper()
	cfg := rest.AnonymousClientConfig(u.RESTConfig())
	cfg.BearerToken = "token-" + name
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	r := request(t, "")
	r.URL, err = r.URL.Parse(u.URL() + path)
	if err != nil {
		t.Fatalf("parse url: %v", err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatalf("send a request: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	status := metav1.Status{}
	if resp.StatusCode/100 != 2 {
		if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
			t.Fatalf("decode make a decoder: %v", err)
		}
	}
	status.Code = int32(resp.StatusCode)
	return status
}

func TestAQuestionIsAskedOnceForAllWhoAskIt(t *testing.T) {
	u := relaytest.New(t)
	for mode, want := range map[access.Mode]int{access.Reviews: 4, access.Passthrough: 2} { // with both tokens
		a := open(t, u, lasting(mode))
		var all sync.WaitGroup
		for range 50 {
			for _, token := range []string{"token-jane", "token-joe"} {
				all.Go(func() {
					who, err := a.Authenticate(request(t, token))
					if err != nil {
						t.Errorf("authenticate: %v", err)
						return
					}
					if got, want := a.Decide(t.Context(), who, configMaps("list")).Allowed, token == "token-jane"; got != want {
						t.Errorf("%s: allowed: %v", token, got)
					}
				})
			}
		}
		all.Wait()
		if got := asked(t, a); got != want {
			t.Errorf("%s: upstream was asked %d times, want %d", mode, got, want)
		}
	}
}

// TestAQuestionIsAllThatIsAsked asks questions that differ in one thing, with everybody allowed nothing.
func TestAQuestionIsAllThatIsAsked(t *testing.T) {
	u := relaytest.New(t)
	a := open(t, u, lasting(access.Reviews))
	joe := func(change func(*user.DefaultInfo)) user.Info {
		u := &user.DefaultInfo{Name: "joe", UID: "1", Groups: []string{"a", "b"}, Extra: map[string][]string{"k": {"v"}}}
		change(u)
		return u
	}
	same := func(*user.DefaultInfo) {}
	list := configMaps("list")
	change := func(f func(*auth.Attributes)) auth.Attributes {
		a := list
		f(&a)
		return a
	}
	for i, q := range []struct {
		u user.Info
		a auth.Attributes
	}{
		{joe(same), list},
		{joe(func(u *user.DefaultInfo) { u.Name = "jo" }), list},
		{joe(func(u *user.DefaultInfo) { u.UID = "2" }), list},
		{joe(func(u *user.DefaultInfo) { u.Groups = []string{"a"} }), list},
		{joe(func(u *user.DefaultInfo) { u.Extra["k"] = []string{"w"} }), list},
		{joe(func(u *user.DefaultInfo) { u.Extra["l"] = u.Extra["k"]; delete(u.Extra, "k") }), list},
		{joe(same), change(func(a *auth.Attributes) { a.Verb = "watch" })},
		{joe(same), change(func(a *auth.Attributes) { a.Resource.Resource = "pods" })},
		{joe(same), change(func(a *auth.Attributes) { a.Resource.Group = "apps" })},
		{joe(same), change(func(a *auth.Attributes) { a.Version = "v2" })},
		{joe(same), change(func(a *auth.Attributes) { a.Subresource = "status" })},
		{joe(same), change(func(a *auth.Attributes) { a.Namespace = "" })},
		{joe(same), change(func(a *auth.Attributes) { a.Name = "a" })},
		{joe(same), change(func(a *auth.Attributes) { a.FieldSelector = "metadata.name=a" })},
		{joe(same), change(func(a *auth.Attributes) { a.LabelSelector = "a=b" })},
		{joe(same), auth.Attributes{Verb: "get", Path: "/x"}},
		{joe(same), auth.Attributes{Verb: "get", Path: "/y"}},
	} {
		for range 2 {
			if err := a.Authorize(t.Context(), q.u, q.a); code(err) != http.StatusForbidden {
				t.Errorf("question %d: %v", i, err)
			}
		}
		if got := asked(t, a); got != i+1 {
			t.Fatalf("after question %d upstream was asked %d times", i, got)
		}
	}
}

// TestImpersonationIsAllowedByUpstream runs what the API server does with the headers: root may do everything, joe lists as
// the lister by constrained impersonation, and jane may not impersonate.
func TestImpersonationIsAllowedByUpstream(t *testing.T) {
	u := relaytest.New(t)
	u.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lists-as}
rules:
- {apiGroups: [authentication.k8s.io], resources: [users, groups], resourceNames: [lister], verbs: ["impersonate:user-info"]}
- {apiGroups: [""], resources: [configmaps], verbs: ["impersonate-on:user-info:list"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lists-as}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lists-as}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: joe}]
`)
	a := open(t, u, lasting(access.Reviews))
	impersonation := authn.NewImpersonation(a)
	for _, c := range []struct {
		name, verb string
		want       int
	}{
		{"root", "list", http.StatusOK},
		{"root", "get", http.StatusOK},
		{"joe", "list", http.StatusOK},
		{"joe", "get", http.StatusForbidden},
		{"jane", "list", http.StatusForbidden},
	} {
		header := http.Header{"Impersonate-User": {"lister"}, "Impersonate-Group": {"lister"}}
		runs, err := impersonation.User(t.Context(), header, callerOf(t, a, "token-"+c.name), configMaps(c.verb))
		if code(err) != c.want {
			t.Errorf("%s, to %s: %v", c.name, c.verb, err)
		}
		if err == nil && (runs.Constraint != "impersonate:user-info" ||
			code(a.Authorize(t.Context(), runs.As, configMaps("list"))) != http.StatusOK) {
			t.Errorf("%s may not list as lister, by %q", c.name, runs.Constraint)
		}
	}
}

func TestAnswersAreUsedWhileUpstreamIsAway(t *testing.T) {
	u := relaytest.New(t)
	for _, mode := range []access.Mode{access.Reviews, access.Passthrough} {
		for stale, want := range map[time.Duration][2]int{
			time.Hour: {http.StatusOK, http.StatusForbidden}, 0: {http.StatusServiceUnavailable, http.StatusServiceUnavailable},
		} {
			a := open(t, u, asking(mode, stale))
			jane, joe := callerOf(t, a, "token-jane"), callerOf(t, a, "token-joe")
			decide := func(u user.Info, verb string) int { return code(a.Authorize(t.Context(), u, configMaps(verb))) }
			if decide(jane, "list") != http.StatusOK || decide(joe, "list") != http.StatusForbidden {
				t.Fatal("upstream decides otherwise")
			}
			u.Cut()
			if got := [2]int{decide(jane, "list"), decide(joe, "list")}; got != want {
				t.Errorf("%s, stale %s: former decisions are answered %v, want %v", mode, stale, got, want)
			}
			err := a.Authorize(t.Context(), jane, configMaps("watch"))
			if code(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), u.URL()) {
				t.Errorf("%s, stale %s: a new question is answered %v", mode, stale, err)
			}
			if _, given := wire.RetryAfter(wire.StatusOf(err)); !given {
				t.Errorf("%s: 503 without Retry-After", mode)
			}
			if mode == access.Reviews {
				_, err := a.Authenticate(request(t, "token-jane"))
				if known := err == nil; known != (stale > 0) || !known && code(err) != http.StatusServiceUnavailable {
					t.Errorf("stale %s: a known token is %v", stale, err)
				}
				if _, err := a.Authenticate(request(t, "token-root")); code(err) != http.StatusServiceUnavailable {
					t.Errorf("stale %s: a new token is %v", stale, err)
				}
			}
			u.Mend()
			if got := code(a.Authorize(t.Context(), jane, configMaps("watch"))); got != http.StatusOK {
				t.Errorf("%s, stale %s: upstream is back, and a new question is answered %d", mode, stale, got)
			}
			u.Mend()
		}
	}
}

// TestARelayThatMayNotAskAllowsNothing withdraws the relay's own permissions.
func TestARelayThatMayNotAskAllowsNothing(t *testing.T) {
	u := relaytest.New(t)
	cfg := asking(access.Reviews, time.Hour)
	cfg.Refused = time.Nanosecond
	a := open(t, u, cfg)
	jane := callerOf(t, a, "token-jane")
	if err := a.Authorize(t.Context(), jane, configMaps("list")); err != nil {
		t.Fatalf("authorize: %v", err)
	}
	u.Delete(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/relay")
	err := a.Authorize(t.Context(), jane, configMaps("list"))
	if code(err) != http.StatusServiceUnavailable ||
		!strings.Contains(err.Error(), `User "relay" cannot create resource "subjectaccessreviews"`) {
		t.Errorf("a decision: %v", err)
	}
	if _, err := a.Authenticate(request(t, "token-jane")); code(err) != http.StatusServiceUnavailable {
		t.Errorf("a token: %v", err)
	}
}

func TestRulesAreNotKnown(t *testing.T) {
	a := open(t, relaytest.New(t), lasting(access.Reviews))
	if rules, err := a.Rules(t.Context(), &user.DefaultInfo{Name: "jane"}, "shop"); err == nil ||
		len(rules.Resources)+len(rules.Paths) > 0 {
		t.Errorf("%v, %v", rules, err)
	}
}

func TestACallerWhoLeavesIsNotAnsweredForUpstream(t *testing.T) {
	a := open(t, relaytest.New(t), asking(access.Reviews, time.Hour))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if d := a.Decide(gone, &user.DefaultInfo{Name: "jane"}, configMaps("list")); d.Allowed || d.Refusal == nil {
		t.Errorf("%+v", d)
	}
}

func TestAnUnknownModeIsRefused(t *testing.T) {
	if _, err := access.New(access.Config{Mode: "trust", Upstream: &rest.Config{Host: "127.0.0.1"}}); err == nil {
		t.Error("it was taken")
	}
}
