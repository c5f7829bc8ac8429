package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

const rbacPath = "/apis/rbac.authorization.k8s.io/v1"

// grant lets subjects do what rules, in JSON, say, in a namespace or, for "", in the cluster.
func (c *caller) grant(namespace, name, rules, subjects string) {
	c.t.Helper()
	base, kind, plural := rbacPath, "ClusterRole", "clusterrole"
	if namespace != "" {
		base, kind, plural = rbacPath+"/namespaces/"+namespace, "Role", "role"
	}
	c.must(http.StatusCreated, http.MethodPost, base+"/"+plural+"s",
		fmt.Sprintf(`{"metadata":{"name":%q},"rules":%s}`, name, rules))
	c.must(http.StatusCreated, http.MethodPost, base+"/"+plural+"bindings", fmt.Sprintf(
		`{"metadata":{"name":%q},"subjects":%s,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q}}`,
		name, subjects, kind, name))
}

func users(names ...string) string {
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf(`{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}`, name))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// refused checks that a request is 403 with a text.
func (c *caller) refused(want, method, path, body string, headers ...string) {
	c.t.Helper()
	if got, _ := c.must(http.StatusForbidden, method, path, body, headers...)["message"].(string); got != want {
		c.t.Errorf("%s %s is refused with\n%s, want\n%s", method, path, got, want)
	}
}

func TestRolesSayWhatUsersMayDo(t *testing.T) {
	t.Parallel()
	s, as := launchWithUsers(t, gapless.Config{})
	admin, jane, viewer := s.caller(t, http2), as("jane"), as("mary", "watchers")
	admin.namespace("shop")
	admin.grant("shop", "r",
		`[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","update","patch"],"resourceNames":["a","b"]},
		{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"],"resourceNames":["a"]},{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["update","patch"]},
		{"apiGroups":[""],"resources":["namespaces"],"verbs":["get"]}]`, users("jane"))
	admin.grant("", "w", `[{"apiGroups":["*"],"resources":["pods","*/scale"],"verbs":["list","watch","deletecollection"]}]`,
		`[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"watchers"}]`)
	admin.must(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/shop/configmaps", `{"metadata":{"name":"a"}}`)

	const maps, in = "/api/v1/namespaces/shop/configmaps", ` in API group "" in the namespace "shop"`
	jane.must(http.StatusOK, http.MethodGet, maps+"/a", "")
	jane.must(http.StatusOK, http.MethodGet, maps+"?fieldSelector=metadata.name%3Da", "")
	jane.must(http.StatusOK, http.MethodGet, "/api/v1/namespaces/shop", "")
	jane.must(http.StatusNotFound, http.MethodGet, maps+"/b", "")
	jane.refused(`configmaps "c" is forbidden: User "jane" cannot get resource "configmaps"`+in, http.MethodGet, maps+"/c", "")
	jane.refused(`configmaps is forbidden: User "jane" cannot list resource "configmaps"`+in, http.MethodGet, maps, "")
	jane.refused(`configmaps is forbidden: User "jane" cannot watch resource "configmaps"`+in, http.MethodGet, maps+"?watch=1",
		"")
	jane.refused(`configmaps "b" is forbidden: User "jane" cannot list resource "configmaps"`+in, http.MethodGet,
		maps+"?fieldSelector=metadata.name%3Db", "")
	jane.refused(`configmaps is forbidden: User "jane" cannot deletecollection resource "configmaps"`+in, http.MethodDelete, maps,
		"")
	jane.refused(`configmaps is forbidden: User "jane" cannot create resource "configmaps"`+in, http.MethodPost, maps,
		`{"metadata":{"name":"a"}}`)
	jane.refused(
		`namespaces "default" is forbidden: User "jane" cannot get resource "namespaces" in API group "" in the `+
			`namespace "default"`,
		http.MethodGet, "/api/v1/namespaces/default", "")
	jane.refused(`nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`,
		http.MethodGet, "/api/v1/nodes", "")

	viewer.must(http.StatusOK, http.MethodGet, "/api/v1/pods", "")
	viewer.must(http.StatusOK, http.MethodDelete, "/api/v1/namespaces/shop/pods", "")
	viewer.refused(
		`deployments.apps "x" is forbidden: User "mary" cannot get resource "deployments/scale" in API group "apps" in `+
			`the namespace "shop"`,
		http.MethodGet, "/apis/apps/v1/namespaces/shop/deployments/x/scale", "")
	// Who may not ask does not learn what is served, nor how.
	viewer.refused(
		`widgets.example.org is forbidden: User "mary" cannot list resource "widgets" in API group "example.org" `+
			`at the cluster scope`,
		http.MethodGet, "/apis/example.org/v1/widgets", "")
	viewer.refused(`pods is forbidden: User "mary" cannot update resource "pods" in API group "" at the cluster scope`,
		http.MethodPut, "/api/v1/pods", "{}")

	// An update or an apply that creates needs the verb create.
	const lease = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/l"
	const text = `leases.coordination.k8s.io "l" is forbidden: User "jane" cannot create resource "leases" in API group ` +
		`"coordination.k8s.io" in the namespace "shop"`
	jane.refused(text, http.MethodPut, lease, `{"metadata":{"name":"l"}}`)
	jane.refused(text, http.MethodPatch, lease+"?fieldManager=m",
		`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"l"}}`,
		"Content-Type: application/apply-patch+yaml")
	admin.must(http.StatusCreated, http.MethodPost, strings.TrimSuffix(lease, "/l"), `{"metadata":{"name":"l"}}`)
	jane.must(http.StatusOK, http.MethodPatch, lease, `{"metadata":{"labels":{"a":"b"}}}`,
		"Content-Type: application/merge-patch+json")
}

func TestPathsAreAuthorized(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	_, as := launchWithUsers(t, gapless.Config{})
	jane, monitor := as("jane"), as("prometheus", "system:monitoring")
	for _, path := range []string{
		"/api", "/api/v1", "/apis", "/apis/apps", "/apis/apps/v1", "/openapi/v2", "/openapi/v3", "/version", "/livez", "/readyz",
		"/healthz",
	} {
		if r := jane.do(http.MethodGet, path, ""); r.code != http.StatusOK {
			t.Errorf("GET %s gives %d: %s", path, r.code, r.body)
		}
	}
	monitor.do(http.MethodGet, "/metrics", "")
	if r := monitor.do(http.MethodGet, "/metrics", ""); r.code != http.StatusOK {
		t.Errorf("GET /metrics gives %d", r.code)
	}
	for _, c := range []struct{ method, path, verb string }{
		{http.MethodGet, "/metrics", "get"},
		{http.MethodGet, "/", "get"},
		{http.MethodGet, "/nothing", "get"},
		{http.MethodPost, "/api", "post"},
		{http.MethodPost, "/gapless/v1/compact", "post"},
		{http.MethodPost, "/openapi/v2", "post"},
	} {
		jane.refused(fmt.Sprintf(`forbidden: User "jane" cannot %s path %q`, c.verb, c.path), c.method, c.path, "")
	}
}

// The next request after the answer to a write sees the write, in both directions.
func TestAChangedRoleHoldsForTheNextRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	s, as := launchWithUsers(t, gapless.Config{})
	admin, jane := s.caller(t, http2), as("jane")
	admin.grant("default", "r", `[]`, users("jane"))
	for i := range 100 {
		rules, code := `[{"apiGroups":[""],"resources":["secrets"],"verbs":["list"]}]`, http.StatusOK
		if i%2 == 1 {
			rules, code = `[]`, http.StatusForbidden
		}
		admin.must(http.StatusOK, http.MethodPatch, rbacPath+"/namespaces/default/roles/r", `{"rules":`+rules+`}`,
			"Content-Type: application/merge-patch+json")
		jane.must(code, http.MethodGet, "/api/v1/namespaces/default/secrets", "")
	}
	admin.must(http.StatusOK, http.MethodPatch, rbacPath+"/namespaces/default/roles/r",
		`{"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["list"]}]}`, "Content-Type: application/merge-patch+json")
	for range 50 {
		admin.must(http.StatusOK, http.MethodDelete, rbacPath+"/namespaces/default/rolebindings/r", "")
		jane.must(http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/default/secrets", "")
		admin.must(http.StatusCreated, http.MethodPost, rbacPath+"/namespaces/default/rolebindings",
			`{"metadata":{"name":"r"},"subjects":`+users("jane")+`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"}}`)
		jane.must(http.StatusOK, http.MethodGet, "/api/v1/namespaces/default/secrets", "")
	}
}

func TestAggregatedRolesFollowNewRoles(t *testing.T) {
	t.Parallel()
	s, as := launchWithUsers(t, gapless.Config{Bootstrap: gapless.BootstrapCluster})
	admin, jane := s.caller(t, http2), as("jane")
	admin.must(http.StatusCreated, http.MethodPost, rbacPath+"/clusterrolebindings",
		`{"metadata":{"name":"v"},"subjects":`+users("jane")+`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}}`)
	may := func(code int) func() bool {
		return func() bool {
			return jane.do(http.MethodGet, "/apis/storage.k8s.io/v1/storageclasses", "").code == code
		}
	}
	until(t, "view is aggregated", time.Minute, func() bool {
		return jane.do(http.MethodGet, "/api/v1/pods", "").code == http.StatusOK
	})
	admin.must(http.StatusCreated, http.MethodPost, rbacPath+"/clusterroles",
		`{"metadata":{"name":"mine","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},
		"rules":[{"apiGroups":["storage.k8s.io"],"resources":["storageclasses"],"verbs":["list"]}]}`)
	until(t, "view has the new rule", time.Minute, may(http.StatusOK))
	admin.must(http.StatusOK, http.MethodDelete, rbacPath+"/clusterroles/mine", "")
	until(t, "view has lost the rule", time.Minute, may(http.StatusForbidden))
}

func TestAuthorizationModes(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	t.Parallel()
	if _, err := gapless.New(gapless.Config{Memory: true, AuthorizationMode: "ABAC"}); err == nil ||
		!strings.Contains(err.Error(), `"ABAC" is unknown: want RBAC, Node, Webhook, MastersOnly, AlwaysAllow`) {
		t.Errorf("an unknown mode: %v", err)
	}
	for mode, want := range map[string]struct{ list, discover int }{
		gapless.AuthorizationRBAC:        {http.StatusForbidden, http.StatusOK},
		gapless.AuthorizationMastersOnly: {http.StatusForbidden, http.StatusForbidden},
		gapless.AuthorizationAlwaysAllow: {http.StatusOK, http.StatusOK},
		gapless.AuthorizationAlwaysDeny:  {http.StatusForbidden, http.StatusForbidden},
		"Node,RBAC":                      {http.StatusForbidden, http.StatusOK},
		"AlwaysDeny,AlwaysAllow":         {http.StatusOK, http.StatusOK},
	} {
		s, as := launchWithUsers(t, gapless.Config{AuthorizationMode: mode})
		jane := as("jane")
		jane.must(want.list, http.MethodGet, "/api/v1/pods", "")
		jane.must(want.discover, http.MethodGet, "/apis", "")
		s.caller(t, http2).must(http.StatusOK, http.MethodGet, "/api/v1/pods", "")
		s.stop()
	}
}
