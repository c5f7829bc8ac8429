package builtin_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	registry "k8s.io/kubernetes/pkg/registry/rbac/validation"
	upstream "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac/rules"
)

// TestRulesAreUpstreams compares what random rules allow, what they lack of others, and how that
// is shown.
func TestRulesAreUpstreams(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(uint64(*seed), 7))
	some := func(from ...string) []string {
		var all []string
		for range r.IntN(3) {
			all = append(all, from[r.IntN(len(from))])
		}
		return all
	}
	verbs, groups := []string{"get", "list", "*"}, []string{"", "apps", "*"}
	resources := []string{
		"pods", "pods/log", "*/log", "*/scale", "deployments", "deployments/scale", "*", "a/b/c", "/", "log", "*/",
	}
	names, paths := []string{"a", "b"}, []string{"/x", "/x/*", "/*", "*", "/x/y", "/x**", ""}
	random := func() (all []rbacv1.PolicyRule) {
		for range 1 + r.IntN(3) {
			rule := rbacv1.PolicyRule{Verbs: some(verbs...)}
			if r.IntN(4) == 0 {
				rule.NonResourceURLs = some(paths...)
			} else {
				rule.APIGroups, rule.Resources, rule.ResourceNames = some(groups...), some(resources...), some(names...)
			}
			all = append(all, rule)
		}
		return all
	}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	for range 20_000 {
		has, wanted := random(), random()
		_, missing := validation.Covers(has, wanted)
		if diff := cmp.Diff(missing, rules.Missing(has, wanted), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%v lack of %v (-upstream +ours):\n%s", has, wanted, diff)
		}
		compact, err := registry.CompactRules(missing)
		if err != nil {
			t.Fatalf("compact rules: %v", err)
		}
		texts := sets.NewString()
		for _, rule := range compact {
			texts.Insert(rbacv1helpers.CompactString(rule))
		}
		if diff := cmp.Diff(texts.List(), rules.Texts(missing), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("texts of %v (-upstream +ours):\n%s", missing, diff)
		}
		a := auth.Attributes{Verb: pick(verbs)}
		if r.IntN(4) == 0 {
			a.Path = "/" + strings.TrimLeft(pick(paths), "/")
		} else {
			a.Resource = schema.GroupResource{Group: pick(groups), Resource: pick([]string{"pods", "deployments", "a"})}
			a.Subresource, a.Name = pick([]string{"", "log", "scale", "b/c"}), pick([]string{"", "a", "c"})
		}
		record := authorizer.AttributesRecord{
			Verb: a.Verb, APIGroup: a.Resource.Group, Resource: a.Resource.Resource, Subresource: a.Subresource, Name: a.Name,
			Path: a.Path, ResourceRequest: a.Path == "",
		}
		want := upstream.RulesAllow(record, has...)
		if got := slices.ContainsFunc(has, func(rule rbacv1.PolicyRule) bool { return rules.Allows(&rule, &a) }); got != want {
			t.Fatalf("%v allow %+v: %v, for upstream %v", has, a, got, want)
		}
	}
}
