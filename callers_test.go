package gapless_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// caller is a kind of caller, with what it may do.
type caller struct {
	name   string
	client *http.Client
	// fresh says that each request has a connection of its own: the server ends those whose
	// requests are refused for long.
	fresh   bool
	headers []string
	refused int // how everything else is answered
	may     func(method, path string, r *kinds.Resource) bool
}

// paths are those of a resource in the namespace default, with the subresources of an object x.
func paths(r *kinds.Resource) []string {
	base := "/api/" + r.Version
	if r.Group != "" {
		base = "/apis/" + r.Group + "/" + r.Version
	}
	if r.Namespaced {
		base += "/namespaces/default"
	}
	object := base + "/" + r.Plural + "/x"
	all := []string{base + "/" + r.Plural, object, object + "/status", object + "/scale"}
	for _, sub := range r.Subresources {
		all = append(all, object+"/"+sub.Name)
	}
	return all
}

// pasts are the paths at which the past of a resource, and of an object of it, is read.
func pasts(r *kinds.Resource) (all []string) {
	for _, path := range paths(r)[:2] {
		for _, query := range []string{
			"changes=NewestFirst", "changes=OldestFirst&since=2020-01-02T03:04:05Z", "at=2020-01-02T03:04:05Z",
			"resourceVersion=1000000001&resourceVersionMatch=Exact",
		} {
			all = append(all, path+"?"+query)
		}
	}
	return all
}

// in is the rig for a part of the test.
func (g *rig) in(t *testing.T) *rig {
	t.Helper()
	part := *g
	part.t = t
	return &part
}

// TestEveryRouteRefusesWhoMayNot sends each method to each route as every kind of caller.
func TestEveryRouteRefusesWhoMayNot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	g := newRig(t, gapless.Authentication{TokenAuthFile: tokenFile(t)})
	g.account()
	named := func(name string) *http.Client {
		cert, _ := issue(t, g.authority(), func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: name} })
		return g.client(cert)
	}
	g.admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"vera"},
"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"vera"}]}`)
	self := func(method, path string, _ *kinds.Resource) bool {
		return method == http.MethodPost && strings.Contains(path, "/self") // of an object: 405
	}
	views := func(method, path string, r *kinds.Resource) bool {
		secret := []string{"secrets", "roles", "rolebindings"}
		open := r.Namespaced || r.Plural == "namespaces"
		return self(method, path, r) || method == http.MethodGet && open && !slices.Contains(secret, r.Plural)
	}
	account := func(method, path string, r *kinds.Resource) bool { // system:cluster-trust-bundle-discovery
		return self(method, path, r) || method == http.MethodGet && r.Plural == "clustertrustbundles"
	}
	nothing := func(string, string, *kinds.Resource) bool { return false }
	unknown := func(_, path string, _ *kinds.Resource) bool { return strings.HasSuffix(path, "reviews/x") } // 405
	callers := []caller{
		{"nobody", g.client(), true, nil, http.StatusUnauthorized, nothing},
		{"a forged token", g.client(), true, bearer("forged"), http.StatusUnauthorized, nothing},
		{"a certificate without roles", named("bob"), false, nil, http.StatusForbidden, self},
		{"a token without roles", g.client(), false, bearer("secret"), http.StatusForbidden, self},
		{"a service account", g.client(), false, bearer(g.token("{}")), http.StatusForbidden, account},
		{
			"the administrator for a user without roles", g.client(g.own), false,
			[]string{"Impersonate-User", "bob"},
			http.StatusForbidden, self,
		},
		{
			"a user for the administrator", named("bob"), false,
			[]string{"Impersonate-User", "root", "Impersonate-Group", "system:masters"},
			http.StatusForbidden, nothing,
		},
		{
			"a front proxy", named("bob"), false,
			[]string{"X-Remote-User", "root", "X-Remote-Group", "system:masters"},
			http.StatusForbidden, unknown,
		},
		{"a user who may view", named("vera"), false, nil, http.StatusForbidden, views},
	}
	send := func(g *rig, c caller, method, path string) (int, map[string]any) {
		if c.fresh {
			c.client.CloseIdleConnections()
		}
		return g.do(c.client, method, path, "{}", c.headers...)
	}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	for _, c := range callers {
		t.Run(c.name, func(t *testing.T) {
			g := g.in(t)
			for _, r := range builtin.Catalog().Resources() {
				for _, path := range paths(r) {
					for _, method := range methods {
						code, answer := send(g, c, method, path)
						switch refused := code == http.StatusUnauthorized || code == http.StatusForbidden; {
						case c.may(method, path, r):
							// A path that may be read can still be one that there is not.
						case !refused || code != c.refused:
							t.Errorf("%s %s: %d %v, want %d", method, path, code, answer, c.refused)
						case answer["items"] != nil || answer["spec"] != nil || answer["data"] != nil:
							t.Errorf("%s %s: the refusal says %v", method, path, answer)
						}
					}
				}
			}
			for _, r := range builtin.Catalog().Resources() {
				for _, path := range pasts(r) { // whoever may not list it now sees nothing of its past
					present, _, _ := strings.Cut(path, "?")
					now, _ := send(g, c, http.MethodGet, present)
					then, answer := send(g, c, http.MethodGet, path)
					if refused := then == c.refused; refused != (now == c.refused) || refused && answer["items"] != nil {
						t.Errorf("GET %s: %d %v; without the past: %d", path, then, answer, now)
					}
				}
			}
			for _, path := range []string{"/gapless/v1/compact", "/metrics", "/nothing", "/apis/nothing.example.com/v1/things"} {
				for _, method := range methods {
					if code, answer := send(g, c, method, path); code != c.refused {
						t.Errorf("%s %s: %d %v, want %d", method, path, code, answer, c.refused)
					}
				}
			}
		})
	}
	for _, r := range builtin.Catalog().Resources() {
		if code, answer := g.do(g.client(g.own), http.MethodGet, paths(r)[0], ""); code == http.StatusUnauthorized ||
			code == http.StatusForbidden {
			t.Errorf("the administrator: GET %s: %d %v", paths(r)[0], code, answer)
		}
	}
}
