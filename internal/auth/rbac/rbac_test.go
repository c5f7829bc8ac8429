package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
)

// TestDecisionsAreUpstreams has the cases of kubernetes plugin/pkg/auth/authorizer/rbac/rbac_test.go TestAuthorizer and
// TestRuleMatches, and of pkg/registry/rbac/validation/rule_test.go, as requests.
func TestDecisionsAreUpstreams(t *testing.T) {
	type request struct {
		who  user.Info
		what auth.Attributes
	}
	for _, c := range []struct {
		name        string
		write       func(w *world)
		may, mayNot []request
	}{
		{
			name: "a cluster role that is bound in a namespace",
			write: func(w *world) {
				w.role("", "admin", rule("*", "*", "*"), paths("*", "*"))
				w.bind("ns1", "b", "ClusterRole/admin", "User:admin", "Group:admins")
			},
			may: []request{
				{person("admin"), on("get", "Pods", "ns1")},
				{person("admin", "group1"), on("watch", "Foobar", "ns1")},
				{person("joe", "group1", "admins"), on("watch", "Foobar", "ns1")},
			},
			mayNot: []request{
				{person("admin"), on("GET", "Pods", "ns2")},
				{person("admin", "admins"), on("GET", "Nodes", "")},
				{person("admin"), at("get", "/metrics")}, // paths are the cluster's
				{person("admins"), on("get", "Pods", "ns1")},
				{person("joe", "admin"), on("get", "Pods", "ns1")},
			},
		},
		{
			name: "paths",
			write: func(w *world) {
				w.role("", "getter", paths("get", "/apis"))
				w.role("", "all", paths("*", "/apis"))
				w.role("", "prefix", paths("get", "/apis/*"))
				w.bind("", "a", "ClusterRole/getter", "User:foo", "Group:bar")
				w.bind("", "b", "ClusterRole/all", "User:admin", "Group:admin")
				w.bind("", "c", "ClusterRole/prefix", "User:prefixed", "Group:prefixed")
			},
			may: []request{
				{person("foo"), at("get", "/apis")},
				{person("", "bar"), at("get", "/apis")},
				{person("admin"), at("watch", "/apis")},
				{person("prefixed"), at("get", "/apis/v1")},
				{person("", "prefixed"), at("get", "/apis/v1/foobar")},
			},
			mayNot: []request{
				{person("foo"), at("watch", "/apis")},
				{person("foo"), at("get", "/api/v1")},
				{person("admin"), at("get", "/api/v1")},
				{person("prefixed"), at("get", "/api/v1")},
				{person("prefixed"), at("get", "/apis")},
			},
		},
		{
			name: "subresources",
			write: func(w *world) {
				w.role("", "pods", rule("*", "*", "pods"))
				w.role("", "parts", rule("*", "*", "pods/status"), rule("*", "*", "*/scale"))
				w.bind("ns1", "a", "ClusterRole/pods", "User:pods")
				w.bind("ns1", "b", "ClusterRole/parts", "User:parts")
			},
			may: []request{
				{person("pods"), on("get", "pods", "ns1")},
				{person("parts"), on("get", "pods/status", "ns1")},
				{person("parts"), on("get", "pods/scale", "ns1")},
				{person("parts"), on("get", "deployments.apps/scale", "ns1")},
			},
			mayNot: []request{
				{person("pods"), on("get", "pods/status", "ns1")},
				{person("parts"), on("get", "pods", "ns1")},
				{person("parts"), on("get", "pods/log", "ns1")},
			},
		},
		{
			name: "verbs, groups and names",
			write: func(w *world) {
				w.role("ns1", "r", rule("get,update", "apps,batch", "deployments,jobs"), rule("get", "", "configmaps", "a", "b"))
				w.bind("ns1", "b", "Role/r", "User:jane")
			},
			may: []request{
				{person("jane"), on("update", "jobs.batch", "ns1")},
				{person("jane"), on("get", "deployments.apps", "ns1", "x")},
				{person("jane"), on("get", "configmaps", "ns1", "b")},
			},
			mayNot: []request{
				{person("jane"), on("delete", "jobs.batch", "ns1")},
				{person("jane"), on("get", "jobs", "ns1")},
				{person("jane"), on("get", "pods.apps", "ns1")},
				{person("jane"), on("get", "configmaps", "ns1", "c")},
				{person("jane"), on("list", "configmaps", "ns1")},
				{person("jane"), on("get", "deployments.apps", "ns2")},
			},
		},
		{
			name: "service accounts",
			write: func(w *world) {
				w.role("", "view", rule("get", "", "pods"))
				w.bind("ns1", "own", "ClusterRole/view", "ServiceAccount:robot")
				w.bind("ns2", "other", "ClusterRole/view", "ServiceAccount:ns1/robot")
				w.bind("", "all", "ClusterRole/view", "ServiceAccount:ns3/robot", "ServiceAccount:nowhere")
			},
			may: []request{
				{person("system:serviceaccount:ns1:robot"), on("get", "pods", "ns1")},
				{person("system:serviceaccount:ns1:robot"), on("get", "pods", "ns2")},
				{person("system:serviceaccount:ns3:robot"), on("get", "pods", "")},
			},
			mayNot: []request{
				{person("system:serviceaccount:ns2:robot"), on("get", "pods", "ns2")},
				{person("robot"), on("get", "pods", "ns1")},
				{person("system:serviceaccount::nowhere"), on("get", "pods", "ns1")},
			},
		},
		{
			name:  "the privileged group",
			write: func(*world) {},
			may: []request{
				{person("root", "system:masters"), on("delete", "nodes", "")}, {person("", "system:masters"), at("post", "/x")},
			},
		},
	} {
		w := newWorld(t)
		c.write(w)
		for _, r := range c.may {
			if err := w.Authorize(t.Context(), r.who, r.what); err != nil {
				t.Errorf("%s: %v %+v: %v", c.name, r.who, r.what, err)
			}
		}
		for _, r := range c.mayNot {
			if err := w.Authorize(t.Context(), r.who, r.what); err == nil {
				t.Errorf("%s: %v may %+v", c.name, r.who, r.what)
			}
		}
	}
}

func TestReasonsAreUpstreams(t *testing.T) {
	w := newWorld(t)
	w.role("", "view", rule("get", "", "pods"))
	w.role("ns1", "r", rule("get", "", "secrets"))
	w.bind("", "all", "ClusterRole/view", "Group:viewers", "User:jane")
	w.bind("ns1", "own", "Role/r", "ServiceAccount:robot")
	w.bind("", "gone", "ClusterRole/gone", "User:jane")
	w.bind("ns1", "lost", "Role/lost", "User:jane")
	for _, c := range []struct {
		who  user.Info
		what auth.Attributes
		want string
	}{
		{person("jane"), on("get", "pods", ""), `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to User "jane"`},
		{
			person("jane", "viewers"), on("get", "pods", "ns1"),
			`RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "view" to Group "viewers"`,
		},
		{
			person("system:serviceaccount:ns1:robot"), on("get", "secrets", "ns1"),
			`RBAC: allowed by RoleBinding "own/ns1" of Role "r" to ServiceAccount "robot/ns1"`,
		},
		{person("jane"), on("get", "nodes", ""), `RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
		{
			person("jane"), on("get", "x", "ns1"),
			`RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "lost" not found]`,
		},
		{person("joe"), on("get", "pods", ""), ""},
		{person("root", "system:masters"), on("get", "pods", ""), ""},
	} {
		if got := w.Decide(t.Context(), c.who, c.what).Why(); got != c.want {
			t.Errorf("%v %+v:\n%s, want\n%s", c.who, c.what, got, c.want)
		}
	}
	got := w.Authorize(t.Context(), person("jane"), on("create", "deployments.apps/scale", "ns1", "<x>")).Error()
	want := `deployments.apps "<x>" is forbidden: User "jane" cannot create resource "deployments/scale" in API group "apps" ` +
		`in the namespace "ns1": ` +
		`RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "lost" not found]`
	if got != want {
		t.Errorf("403 is\n%s, want\n%s", got, want)
	}
}

func TestRulesAreOfEveryBindingOnce(t *testing.T) {
	w := newWorld(t)
	w.role("", "a", rule("get", "", "pods"), paths("get", "/x"))
	w.role("ns1", "b", rule("get", "", "secrets", "n"))
	w.bind("", "b1", "ClusterRole/a", "User:jane", "Group:g", "Group:h")
	w.bind("ns1", "b2", "Role/b", "Group:g")
	w.bind("ns1", "b3", "Role/lost", "User:jane")
	w.bind("ns2", "b4", "ClusterRole/a", "User:jane")
	got, err := w.Rules(t.Context(), person("jane", "g", "h"), "ns1")
	if err == nil || err.Error() != `role.rbac.authorization.k8s.io "lost" not found` {
		t.Errorf("error %v", err)
	}
	if len(got.Resources) != 2 || got.Resources[1].ResourceNames[0] != "n" || len(got.Paths) != 1 {
		t.Errorf("rules %+v", got)
	}
}

// TestChangesHoldForTheNextDecision compares the index with a search through all roles and
// bindings, after random changes, while other goroutines ask.
func TestChangesHoldForTheNextDecision(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	type bound struct {
		role     string
		subjects []string
	}
	rolesThere, bindings := map[string]string{}, map[string]bound{} // by "ns/name"; a role has one verb
	namespaces, names := []string{"", "n1", "n2"}, []string{"a", "b", "c", "d"}
	subjects := []string{"User:a", "User:b", "Group:a", "Group:b", "ServiceAccount:n1/a"}
	users := []user.Info{person("a"), person("b", "a"), person("c", "a", "b"), person("system:serviceaccount:n1:a")}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = w.Authorize(t.Context(), users[2], on("get", "pods", "n1"))
			}
		}
	})
	names1 := func(u user.Info, s string) bool {
		kind, name, _ := strings.Cut(s, ":")
		switch kind {
		case "Group":
			return slices.Contains(u.GetGroups(), name)
		case "ServiceAccount":
			return u.GetName() == "system:serviceaccount:"+strings.ReplaceAll(name, "/", ":")
		}
		return u.GetName() == name
	}
	for range 3000 {
		ns, name := pick(namespaces), pick(names)
		key := ns + "/" + name
		switch r.IntN(4) {
		case 0:
			verb := pick([]string{"get", "list"})
			rolesThere[key] = verb
			w.role(ns, name, rule(verb, "", "pods"))
		case 1:
			delete(rolesThere, key)
			w.change(map[bool]string{true: "clusterroles", false: "roles"}[ns == ""],
				&rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}, true)
		case 2:
			b := bound{role: "ClusterRole/" + pick(names)}
			if ns != "" && r.IntN(2) == 0 {
				b.role = "Role/" + pick(names)
			}
			for range r.IntN(3) {
				b.subjects = append(b.subjects, pick(subjects))
			}
			bindings[key] = b
			w.bind(ns, name, b.role, b.subjects...)
		case 3:
			delete(bindings, key)
			w.unbind(ns, name)
		}
		u, where, verb := users[r.IntN(len(users))], pick(namespaces), pick([]string{"get", "list"})
		want := false
		for key, b := range bindings {
			in, _, _ := strings.Cut(key, "/")
			kind, role, _ := strings.Cut(b.role, "/")
			if kind == "ClusterRole" {
				role = "/" + role
			} else {
				role = in + "/" + role
			}
			want = want || (in == "" || in == where) && rolesThere[role] == verb &&
				slices.ContainsFunc(b.subjects, func(s string) bool { return names1(u, s) })
		}
		if got := w.Decide(t.Context(), u, on(verb, "pods", where)).Allowed; got != want {
			t.Fatalf("%v may %s in %q: %v, want %v\nroles %v\nbindings %v", u, verb, where, got, want, rolesThere, bindings)
		}
	}
	close(stop)
	wg.Wait()
}

// crowd has 500 roles with 500 bindings, of which jane has a few.
func crowd(b *testing.B) *world {
	w := newWorld(b)
	for i := range 500 {
		name := fmt.Sprintf("r%d", i)
		w.role("", name, rule("get,list,watch", "", "pods,secrets"), rule("get", "apps", "deployments"),
			rule("update", fmt.Sprintf("g%d", i), "things"))
		switch who := fmt.Sprintf("User:u%d", i); {
		case i < 3:
			w.bind("", name, "ClusterRole/"+name, "User:jane", who)
		case i < 6:
			w.bind("ns1", name, "ClusterRole/"+name, "User:jane", "Group:g", who)
		default:
			w.bind(fmt.Sprintf("ns%d", i%20), name, "ClusterRole/"+name, who)
		}
	}
	return w
}

func BenchmarkDecision(b *testing.B) {
	for _, c := range []struct {
		name string
		what auth.Attributes
	}{
		{"first_rule", on("get", "pods", "ns1")},
		{"last_rule", on("update", "things.g5", "ns1")},
		{"refused", on("delete", "pods", "ns1")},
	} {
		b.Run(c.name, func(b *testing.B) {
			w, jane := crowd(b), person("jane", "system:authenticated", "g", "h")
			b.ReportAllocs()
			for b.Loop() {
				w.Decide(b.Context(), jane, c.what)
			}
		})
	}
}

// BenchmarkChange is a change of a binding, and the first decision after it.
func BenchmarkChange(b *testing.B) {
	w, jane := crowd(b), person("jane", "system:authenticated", "g", "h")
	plural, o := binding("ns1", "r100", "ClusterRole/r100", "User:jane")
	changed := w.object(o)
	gr := w.Follows()[slices.IndexFunc(w.Follows(), func(gr schema.GroupResource) bool { return gr.Resource == plural })]
	b.ReportAllocs()
	for b.Loop() {
		w.Change(gr, changed, false)
		w.Decide(b.Context(), jane, on("get", "pods", "ns1"))
	}
}
