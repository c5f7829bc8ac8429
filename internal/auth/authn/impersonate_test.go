package authn_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestPathsAreImpersonatedOn asks for one that is no resource.
func TestPathsAreImpersonatedOn(t *testing.T) {
	g := grant(t, "impersonate-on:user-info:get /metrics", "impersonate:user-info authentication.k8s.io users")
	i := authn.NewImpersonation(g)
	for path, want := range map[string]string{
		"/metrics": "<nil>", "/x": `forbidden: User "bob" cannot impersonate-on:user-info:get path "/x"`,
	} {
		_, err := i.User(t.Context(), headers("User", "jane"), &user.DefaultInfo{Name: "bob"},
			auth.Attributes{Verb: "get", Path: path})
		if fmt.Sprint(err) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestAWebhookHasOneAnswerForAllPodsOfADaemonSet: it gets the keys of the extras, not their values.
func TestAWebhookHasOneAnswerForAllPodsOfADaemonSet(t *testing.T) {
	g := grant(t, "* * *")
	i := authn.NewImpersonation(g)
	for _, node := range []string{"n1", "n2"} {
		caller := agent()
		caller.Extra = map[string][]string{nodeName: {node}, podName: {"agent-" + node}}
		if _, err := i.User(t.Context(), headers("User", "system:node:"+node), caller, listPods()); err != nil {
			t.Fatalf("%s: %v", node, err)
		}
	}
	asked := *g.asked
	if len(asked) != 4 || !slices.Equal(asked[:2], asked[2:]) {
		t.Errorf("asked %q", asked)
	}
	want := &user.DefaultInfo{Name: "system:serviceaccount:ns:agent", Groups: []string{"g"}, Extra: map[string][]string{
		"authentication.kubernetes.io/associated-node-keys": {nodeName, podName},
	}}
	for _, as := range *g.as {
		if diff := cmp.Diff(user.Info(want), as); diff != "" {
			t.Errorf("asked about (-want +got):\n%s", diff)
		}
	}
}

// TestTheLastModeIsTriedFirst counts what is asked when a caller impersonates again, and has the answer that follows.
func TestTheLastModeIsTriedFirst(t *testing.T) {
	g := grant(t, "impersonate  users jane")
	i := authn.NewImpersonation(g)
	ask := func(caller, as string) (int, error) {
		*g.asked = nil
		_, err := i.User(t.Context(), headers("User", as), &user.DefaultInfo{Name: caller}, listPods())
		return len(*g.asked), err
	}
	for at, c := range []struct {
		caller, as string
		asked      int
		refused    string
	}{
		{"bob", "jane", 2, ""},
		{"bob", "jane", 1, ""},
		{"bob", "joe", 2, `users "joe" is forbidden: User "bob" cannot impersonate resource "users"`},
		{"carl", "joe", 2, `pods is forbidden: User "carl" cannot impersonate-on:user-info:list resource "pods"`},
		{"carl", "jane", 2, ""},
		{"bob", "jane", 1, ""},
	} {
		asked, err := ask(c.caller, c.as)
		if asked != c.asked || (err == nil) != (c.refused == "") || err != nil && !strings.HasPrefix(err.Error(), c.refused) {
			t.Errorf("%d: asked %d times, %v", at, asked, err)
		}
	}
	const attempts, questions = "apiserver_impersonation_attempts", "apiserver_impersonation_authorization_attempts"
	of := map[string]map[string]float64{
		attempts:  {"allowed legacy": 4, "denied ": 2},
		questions: {"allowed legacy": 4, "denied legacy": 2, "denied user-info": 4},
	}
	want := map[string]map[string]float64{}
	for name, counts := range of {
		want[name+"_total"], want[name+"_duration_seconds"] = counts, counts
	}
	if diff := cmp.Diff(want, counted(t, i)); diff != "" {
		t.Errorf("what was counted (-want +got):\n%s", diff)
	}
	// What is withdrawn is refused at once.
	g.rules[0].ResourceNames[0] = "nobody"
	if _, err := ask("bob", "jane"); err == nil {
		t.Error("a withdrawn permission counts")
	}
}

// counted is what has been counted, and how often something was timed: by metric, and by decision and mode.
func counted(t *testing.T, i *authn.Impersonation) map[string]map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(i)
	families, err := registry.Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	counted := map[string]map[string]float64{}
	for _, family := range families {
		counts := map[string]float64{}
		counted[family.GetName()] = counts
		for _, m := range family.GetMetric() {
			counts[m.GetLabel()[0].GetValue()+" "+m.GetLabel()[1].GetValue()] = m.GetCounter().GetValue() +
				float64(m.GetHistogram().GetSampleCount())
		}
	}
	return counted
}

// TestWhatAnAuthorizerCannotDecideIsSaid: its errors are 403 with their texts; where it could not ask somebody, that is the
// answer, also if another mode is refused.
func TestWhatAnAuthorizerCannotDecideIsSaid(t *testing.T) {
	away := wire.Unavailable("nobody could be asked", 0)
	for name, c := range map[string]struct {
		otherwise auth.Decision
		code      int32
		want      string
	}{
		"a failure": {
			auth.Decision{Failure: errors.New("broken")}, http.StatusForbidden, `in the namespace "ns": broken`,
		},
		"a failure with a reason": {
			auth.Decision{Failure: errors.New("broken"), Reason: func() string { return "why" }},
			http.StatusForbidden,
			`in the namespace "ns": broken: why`,
		},
		"a reason": {
			auth.Decision{Reason: func() string { return "why" }}, http.StatusForbidden, `in the namespace "ns": why`,
		},
		"nobody answers": {auth.Decision{Refusal: away}, http.StatusServiceUnavailable, "nobody could be asked"},
	} {
		g := grant(t)
		g.otherwise = c.otherwise
		_, err := authn.NewImpersonation(g).User(t.Context(), headers("User", "jane"), &user.DefaultInfo{Name: "bob"}, listPods())
		if wire.StatusOf(err).Code != c.code || !strings.HasSuffix(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	first := firstRefused{grant(t), away}
	_, err := authn.NewImpersonation(first).User(t.Context(), headers("User", "jane"), &user.DefaultInfo{Name: "bob"}, listPods())
	if wire.StatusOf(err).Code != http.StatusServiceUnavailable {
		t.Errorf("refused at first, then not decided: %v", err)
	}
}

// firstRefused refuses the first question, and has an error for others.
type firstRefused struct {
	granted
	then error
}

func (f firstRefused) Decide(ctx context.Context, u user.Info, a auth.Attributes) auth.Decision {
	d := f.granted.Decide(ctx, u, a)
	if len(*f.asked) > 1 {
		d.Refusal = f.then
	}
	return d
}

// FuzzImpersonation runs whatever headers say as somebody who may do everything but the verb impersonate: nobody gets
// system:masters, and the caller's own name and groups are never left.
func FuzzImpersonation(f *testing.F) {
	for _, seed := range [][4]string{
		{"jane", "dev", "scopes", "view"},
		{"system:node:n1", "", "", ""},
		{"system:serviceaccount:a:b", "system:masters", "", ""},
		{"jane", "system:masters", "a%2fb", ""},
		{"system:anonymous", "", "%", "\xff"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, name, group, key, value string) {
		h := http.Header{"Impersonate-User": {name}, "Impersonate-Extra-" + key: {value}}
		if group != "" {
			h["Impersonate-Group"] = []string{group}
		}
		g := grant(t)
		for _, mode := range []string{"associated-node", "arbitrary-node", "serviceaccount", "user-info"} {
			g.rules = append(g.rules, rbacv1.PolicyRule{
				Verbs: []string{"impersonate:" + mode, "impersonate-on:" + mode + ":list"}, APIGroups: []string{"*"},
				Resources: []string{"*"},
			})
		}
		runs, err := authn.NewImpersonation(g).User(t.Context(), h, agent(), listPods())
		if err != nil {
			if code := wire.StatusOf(err).Code; code != http.StatusForbidden && code != http.StatusBadRequest {
				t.Errorf("%d %v", code, err)
			}
			return
		}
		groups := runs.As.GetGroups()
		if runs.As.GetName() != name || runs.Constraint == "" || slices.Contains(groups, user.SystemPrivilegedGroup) ||
			slices.Contains(groups, "g") && group != "g" || len(h) > 0 {
			t.Errorf("runs as %v by %q, headers left: %v", runs.As, runs.Constraint, h)
		}
	})
}

// onlyImpersonate allows the verb impersonate, and nothing else.
type onlyImpersonate struct{ auth.AlwaysDeny }

func (onlyImpersonate) Decide(_ context.Context, _ user.Info, a auth.Attributes) auth.Decision {
	return auth.Decision{Allowed: a.Verb == "impersonate"}
}

// BenchmarkImpersonation is what it costs who has the verb impersonate, besides the decisions.
func BenchmarkImpersonation(b *testing.B) {
	i := authn.NewImpersonation(onlyImpersonate{})
	bob := &user.DefaultInfo{Name: "bob"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := i.User(b.Context(), headers("User", "jane", "Group", "dev"), bob, listPods()); err != nil {
			b.Fatalf("refused: %v", err)
		}
	}
}
