package auth_test

import (
	"context"
	"errors"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

// fixed always decides the same.
type fixed struct {
	auth.AlwaysDeny
	decision auth.Decision
}

func (f fixed) Decide(context.Context, user.Info, auth.Attributes) auth.Decision { return f.decision }

func (fixed) Rules(context.Context, user.Info, string) (auth.Rules, error) {
	return auth.Rules{
		Incomplete: true, Resources: []authorizationv1.ResourceRule{{Verbs: []string{"get"}}},
	}, errors.New("a role is missing")
}

func because(why string) func() string { return func() string { return why } }

func TestTheFirstOpinionDecides(t *testing.T) {
	busy := wire.Unavailable("the webhook does not answer", 0)
	allows := fixed{decision: auth.Decision{Allowed: true, Reason: because("it may")}}
	denies := fixed{decision: auth.Decision{Denied: true, Reason: because("never")}}
	silent := fixed{}
	why := fixed{decision: auth.Decision{Reason: because("no role")}}
	fails := fixed{decision: auth.Decision{Refusal: busy}}
	u := &user.DefaultInfo{Name: "jane"}
	wanted := auth.Attributes{Verb: "get", Resource: schema.GroupResource{Resource: "pods"}, Namespace: "ns", Name: "p"}
	const refused = `pods "p" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "ns"`
	for name, c := range map[string]struct {
		all  []auth.Authorizer
		want string
	}{
		"none":              {nil, refused},
		"one allows":        {[]auth.Authorizer{silent, why, allows, denies}, ""},
		"one denies before": {[]auth.Authorizer{why, denies, allows}, refused + ": never"},
		"no opinion": {
			[]auth.Authorizer{silent, why, silent, auth.AlwaysDeny{}}, refused + ": b: no role\nd: Everything is forbidden.",
		},
		"one could not be asked":    {[]auth.Authorizer{fails, why}, busy.Error()},
		"another one allows beside": {[]auth.Authorizer{fails, allows}, ""},
	} {
		var all auth.Union
		for i, one := range c.all {
			all = append(all, auth.Named{Name: string(rune('a' + i)), Authorizer: one})
		}
		got := ""
		if err := all.Authorize(t.Context(), u, wanted); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	rules, err := auth.Union{{Name: "x", Authorizer: auth.Privileged{}}, {Name: "a", Authorizer: silent}}.Rules(t.Context(), u,
		"ns")
	if err == nil || len(rules.Resources) != 1 || !rules.Incomplete {
		t.Errorf("rules: %v, %v", rules, err)
	}
}

func TestWhoIsAKubelet(t *testing.T) {
	nodes := []string{"x", user.NodesGroup}
	for _, c := range []struct {
		u    user.Info
		name string
		is   bool
	}{
		{nil, "", false},
		{&user.DefaultInfo{Name: "system:node:a", Groups: nodes}, "a", true},
		{&user.DefaultInfo{Name: "system:node:", Groups: nodes}, "", true},
		{&user.DefaultInfo{Name: "system:node:a"}, "", false},
		{&user.DefaultInfo{Name: "system:nodes:a", Groups: nodes}, "", false},
	} {
		if name, is := auth.NodeOf(c.u); is != c.is || is && name != c.name {
			t.Errorf("%v: %q, %v", c.u, name, is)
		}
	}
}
