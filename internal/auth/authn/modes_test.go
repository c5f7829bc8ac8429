package authn_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/auth/rbac/rules"
	"github.com/gapless-io/gapless/internal/wire"
)

// granted decides by rules, which everybody has, and notes what it is asked.
type granted struct {
	auth.AlwaysDeny

	rules []rbacv1.PolicyRule
	asked *[]string
	as    *[]user.Info
	// otherwise is the decision about what the rules do not allow.
	otherwise auth.Decision
}

func (g granted) Decide(_ context.Context, u user.Info, a auth.Attributes) auth.Decision {
	*g.asked = append(*g.asked, text(a))
	*g.as = append(*g.as, u)
	for i := range g.rules {
		if rules.Allows(&g.rules[i], &a) {
			return auth.Decision{Allowed: true}
		}
	}
	return g.otherwise
}

// text is a question as "verb group/version/resource/subresource namespace name", without what is empty.
func text(a auth.Attributes) string {
	if a.Path != "" {
		return a.Verb + " " + a.Path
	}
	resource := strings.Trim(fmt.Sprintf("%s/%s/%s/%s", a.Resource.Group, a.Version, a.Resource.Resource, a.Subresource), "/")
	return strings.Join(strings.Fields(fmt.Sprint(a.Verb, " ", resource, " ", a.Namespace, " ", a.Name)), " ")
}

// grant returns an authorizer with rules that are written as "verb group resource [name]".
func grant(t *testing.T, lines ...string) granted {
	t.Helper()
	g := granted{asked: new([]string), as: new([]user.Info)}
	for _, line := range lines {
		words := strings.Split(line, " ")
		if strings.HasPrefix(words[1], "/") {
			g.rules = append(g.rules, rbacv1.PolicyRule{Verbs: words[:1], NonResourceURLs: words[1:]})
			continue
		}
		g.rules = append(g.rules, rbacv1.PolicyRule{
			Verbs: words[:1], APIGroups: words[1:2], Resources: words[2:3], ResourceNames: words[3:],
		})
	}
	return g
}

// headers returns those of names and values.
func headers(of ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(of); i += 2 {
		h.Add("Impersonate-"+of[i], of[i+1])
	}
	return h
}

// listPods is what requests want.
func listPods() auth.Attributes {
	return auth.Attributes{
		Verb: "list", Resource: schema.GroupResource{Resource: "pods"}, Version: "v1", Namespace: "ns", LabelSelector: "a=b",
	}
}

const (
	nodeName = "authentication.kubernetes.io/node-name"
	podName  = "authentication.kubernetes.io/pod-name"
)

// agent is a service account in a pod on the node n1.
func agent() *user.DefaultInfo {
	return &user.DefaultInfo{Name: "system:serviceaccount:ns:agent", Groups: []string{"g"}, Extra: map[string][]string{
		nodeName: {"n1"}, podName: {"p"},
	}}
}

// TestEachModeAsksForItsUsers has for each mode what allows a user, and what is asked.
func TestEachModeAsksForItsUsers(t *testing.T) {
	bob := &user.DefaultInfo{Name: "bob"}
	on := func(mode string) string { return "impersonate-on:" + mode + ":list  pods" }
	for _, c := range []struct {
		name       string
		caller     user.Info
		headers    http.Header
		rules      []string
		constraint string
		want       *user.DefaultInfo
		asked      []string
	}{
		{
			"a node by its pod", agent(), headers("User", "system:node:n1"),
			[]string{on("associated-node"), "impersonate:associated-node authentication.k8s.io nodes"},
			"impersonate:associated-node",
			&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}},
			[]string{
				"impersonate-on:associated-node:list v1/pods ns",
				"impersonate:associated-node authentication.k8s.io/v1/nodes *",
			},
		},
		{
			"another node", agent(), headers("User", "system:node:n2"),
			[]string{on("arbitrary-node"), "impersonate:arbitrary-node authentication.k8s.io nodes n2"},
			"impersonate:arbitrary-node",
			&user.DefaultInfo{Name: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}},
			[]string{
				"impersonate-on:arbitrary-node:list v1/pods ns",
				"impersonate:arbitrary-node authentication.k8s.io/v1/nodes n2",
			},
		},
		{
			"a service account", bob, headers("User", "system:serviceaccount:a:b"),
			[]string{on("serviceaccount"), "impersonate:serviceaccount authentication.k8s.io serviceaccounts b"},
			"impersonate:serviceaccount",
			&user.DefaultInfo{Name: "system:serviceaccount:a:b", Groups: []string{
				"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated",
			}},
			[]string{
				"impersonate-on:serviceaccount:list v1/pods ns",
				"impersonate:serviceaccount authentication.k8s.io/v1/serviceaccounts a b",
			},
		},
		{
			"another user with all parts", bob,
			headers("User", "jane", "Uid", "7", "Group", "dev", "Group", "ops", "Extra-A.b%2fs", "view", "Extra-A.b%2fc", "d"),
			[]string{
				on("user-info"), "impersonate:user-info authentication.k8s.io users jane",
				"impersonate:user-info authentication.k8s.io uids 7", "impersonate:user-info authentication.k8s.io groups dev",
				"impersonate:user-info authentication.k8s.io groups ops",
				"impersonate:user-info authentication.k8s.io userextras/a.b/s view",
				"impersonate:user-info authentication.k8s.io *",
			},
			"impersonate:user-info",
			&user.DefaultInfo{
				Name: "jane", UID: "7", Groups: []string{"dev", "ops", "system:authenticated"},
				Extra: map[string][]string{"a.b/s": {"view"}, "a.b/c": {"d"}},
			},
			[]string{
				"impersonate-on:user-info:list v1/pods ns", "impersonate:user-info authentication.k8s.io/v1/users jane",
				"impersonate:user-info authentication.k8s.io/v1/uids 7",
				"impersonate:user-info authentication.k8s.io/v1/groups dev",
				"impersonate:user-info authentication.k8s.io/v1/groups ops",
				"impersonate:user-info authentication.k8s.io/v1/userextras/a.b/c d",
				"impersonate:user-info authentication.k8s.io/v1/userextras/a.b/s view",
			},
		},
		{
			"nobody who is known", bob, headers("User", "system:anonymous"),
			[]string{on("user-info"), "impersonate:user-info authentication.k8s.io users"},
			"impersonate:user-info",
			&user.DefaultInfo{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}},
			[]string{
				"impersonate-on:user-info:list v1/pods ns",
				"impersonate:user-info authentication.k8s.io/v1/users system:anonymous",
			},
		},
		{
			"many groups and extras by one rule each", bob,
			headers("User", "jane", "Group", "1", "Group", "2", "Group", "3", "Group", "4", "Extra-A.b%2fc", "1",
				"Extra-A.b%2fc", "2", "Extra-A.b%2fd", "3", "Extra-A.b%2fd", "4"),
			[]string{on("user-info"), "impersonate:user-info authentication.k8s.io *"},
			"impersonate:user-info",
			&user.DefaultInfo{
				Name: "jane", Groups: []string{"1", "2", "3", "4", "system:authenticated"},
				Extra: map[string][]string{"a.b/c": {"1", "2"}, "a.b/d": {"3", "4"}},
			},
			[]string{
				"impersonate-on:user-info:list v1/pods ns", "impersonate:user-info authentication.k8s.io/v1/users jane",
				"impersonate:user-info authentication.k8s.io/v1/groups *",
				"impersonate:user-info authentication.k8s.io/v1/userextras/* *",
			},
		},
		{
			"many groups by their names", bob,
			headers("User", "jane", "Group", "1", "Group", "2", "Group", "3", "Group", "4"),
			[]string{
				on("user-info"), "impersonate:user-info authentication.k8s.io users",
				"impersonate:user-info authentication.k8s.io groups 1 2 3 4",
			},
			"impersonate:user-info",
			&user.DefaultInfo{Name: "jane", Groups: []string{"1", "2", "3", "4", "system:authenticated"}},
			[]string{
				"impersonate-on:user-info:list v1/pods ns", "impersonate:user-info authentication.k8s.io/v1/users jane",
				"impersonate:user-info authentication.k8s.io/v1/groups *",
				"impersonate:user-info authentication.k8s.io/v1/groups 1",
				"impersonate:user-info authentication.k8s.io/v1/groups 2",
				"impersonate:user-info authentication.k8s.io/v1/groups 3",
				"impersonate:user-info authentication.k8s.io/v1/groups 4",
			},
		},
		{
			"a node by the verb impersonate has no group of nodes", bob, headers("User", "system:node:n1"),
			[]string{"impersonate  users system:node:n1"},
			"",
			&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:authenticated"}},
			[]string{"impersonate-on:arbitrary-node:list v1/pods ns", "impersonate v1/users system:node:n1"},
		},
		{
			"a node with a group only by the verb impersonate", bob, headers("User", "system:node:n1", "Group", "g"),
			[]string{"* * *"},
			"",
			&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"g", "system:authenticated"}},
			[]string{"impersonate v1/users system:node:n1", "impersonate v1/groups g"},
		},
		{
			"a service account with a UID only by the verb impersonate", bob,
			headers("User", "system:serviceaccount:a:b", "Uid", "7"),
			[]string{"* * *"},
			"",
			&user.DefaultInfo{Name: "system:serviceaccount:a:b", UID: "7", Groups: []string{
				"system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated",
			}},
			[]string{"impersonate v1/serviceaccounts a b", "impersonate authentication.k8s.io/v1/uids 7"},
		},
		{
			"system:masters only by the verb impersonate", bob, headers("User", "jane", "Group", "system:masters"),
			[]string{"* * *"},
			"",
			&user.DefaultInfo{Name: "jane", Groups: []string{"system:masters", "system:authenticated"}},
			[]string{
				"impersonate-on:user-info:list v1/pods ns", "impersonate:user-info authentication.k8s.io/v1/users jane",
				"impersonate v1/users jane", "impersonate v1/groups system:masters",
			},
		},
		{
			"what is no name of a node is a user", bob, headers("User", "system:node:N_1"),
			[]string{"* * *"},
			"impersonate:user-info",
			&user.DefaultInfo{Name: "system:node:N_1", Groups: []string{"system:authenticated"}},
			[]string{
				"impersonate-on:user-info:list v1/pods ns",
				"impersonate:user-info authentication.k8s.io/v1/users system:node:N_1",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := grant(t, c.rules...)
			runs, err := authn.NewImpersonation(g).User(t.Context(), c.headers, c.caller, listPods())
			if err != nil {
				t.Fatalf("refused: %v\nasked %q", err, *g.asked)
			}
			if diff := cmp.Diff(user.Info(c.want), runs.As); diff != "" {
				t.Errorf("the user (-want +got):\n%s", diff)
			}
			if runs.Constraint != c.constraint {
				t.Errorf("the constraint is %q, want %q", runs.Constraint, c.constraint)
			}
			if diff := cmp.Diff(c.asked, *g.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if len(c.headers) > 0 {
				t.Errorf("headers are left: %v", c.headers)
			}
		})
	}
}

// TestTheFirstRefusalIsTheAnswer has what is missing, and the text.
func TestTheFirstRefusalIsTheAnswer(t *testing.T) {
	bob := &user.DefaultInfo{Name: "bob"}
	all := "impersonate:user-info authentication.k8s.io *"
	const (
		list  = "impersonate-on:user-info:list  pods"
		scope = ` in API group "authentication.k8s.io" at the cluster scope`
		inNS  = ` in API group "" in the namespace "ns"`
		bobs  = `User "bob" cannot impersonate:user-info`
		extra = `userextras.authentication.k8s.io is forbidden: ` + bobs + ` resource "userextras"` + scope
	)
	for _, c := range []struct {
		name    string
		caller  user.Info
		headers http.Header
		rules   []string
		want    string
	}{
		{
			"nothing is allowed", bob, headers("User", "jane"), nil,
			`pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods"` + inNS,
		},
		{
			"another verb is allowed", bob, headers("User", "jane"),
			[]string{"impersonate-on:user-info:get  pods", all},
			`pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods"` + inNS,
		},
		{
			"the user is not", bob, headers("User", "jane"),
			[]string{list},
			`users.authentication.k8s.io "jane" is forbidden: ` + bobs + ` resource "users"` + scope,
		},
		{
			"the verb impersonate in the group of the constrained ones", bob, headers("User", "jane"),
			[]string{"impersonate authentication.k8s.io users", list},
			`users.authentication.k8s.io "jane" is forbidden: ` + bobs + ` resource "users"` + scope,
		},
		{
			"a group is not", bob, headers("User", "jane", "Group", "dev"),
			[]string{list, "impersonate:user-info authentication.k8s.io users"},
			`groups.authentication.k8s.io "dev" is forbidden: ` + bobs + ` resource "groups"` + scope,
		},
		{
			"system:masters", bob, headers("User", "jane", "Group", "system:masters"),
			[]string{list, all},
			`groups.authentication.k8s.io "system:masters" is forbidden: ` + bobs + ` resource "groups"` + scope +
				`: impersonating the system:masters group is not allowed`,
		},
		{
			"a bad key", bob, headers("User", "jane", "Extra-A%20b", "1"),
			[]string{list, all},
			extra + `: impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "a b": must be` +
				` a domain-prefixed path (such as "acme.io/foo")`,
		},
		{
			"a key in upper case", bob, headers("User", "jane", "Extra-A.b%2f%43", "1"),
			[]string{list, all},
			extra + `: impersonating a non-lowercase key in extra is not allowed: "a.b/C"`,
		},
		{
			"an empty value", bob, headers("User", "jane", "Extra-A.b%2fc", ""),
			[]string{list, all},
			extra + `: impersonating the empty string value in extra is not allowed`,
		},
		{
			"one node for all", agent(), headers("User", "system:node:n1"),
			[]string{"impersonate-on:associated-node:list  pods", "impersonate:associated-node authentication.k8s.io nodes n1"},
			`nodes.authentication.k8s.io "*" is forbidden: User "system:serviceaccount:ns:agent" cannot` +
				` impersonate:associated-node resource "nodes"` + scope,
		},
		{
			"another node than that of the pod", agent(), headers("User", "system:node:n2"),
			[]string{"impersonate-on:associated-node:list  pods", "impersonate:associated-node authentication.k8s.io nodes"},
			`pods is forbidden: User "system:serviceaccount:ns:agent" cannot impersonate-on:arbitrary-node:list resource "pods"` +
				inNS,
		},
		{
			"a user who says on which node he is", &user.DefaultInfo{Name: "bob", Extra: agent().Extra},
			headers("User", "system:node:n1"),
			[]string{"impersonate-on:associated-node:list  *", "impersonate:associated-node * *"},
			`pods is forbidden: User "bob" cannot impersonate-on:arbitrary-node:list resource "pods"` + inNS,
		},
		{
			"only the verb impersonate is for it", bob, headers("User", "system:serviceaccount:a:b", "Group", "g"),
			[]string{list, all},
			`serviceaccounts "b" is forbidden: User "bob" cannot impersonate resource "serviceaccounts" in API group ""` +
				` in the namespace "a"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := len(c.headers)
			_, err := authn.NewImpersonation(grant(t, c.rules...)).User(t.Context(), c.headers, c.caller, listPods())
			if err == nil || err.Error() != c.want || wire.StatusOf(err).Code != http.StatusForbidden {
				t.Errorf("%v\nwant %s", err, c.want)
			}
			if len(c.headers) != sent {
				t.Errorf("headers of a refused request are %v", c.headers)
			}
		})
	}
}
