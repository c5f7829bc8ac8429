package match_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/match"
)

// randomSelector is one of few labels, or of none.
func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	operators := []metav1.LabelSelectorOperator{
		metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		"Bad",
	}
	for range r.IntN(3) {
		one := metav1.LabelSelectorRequirement{
			Key: []string{"a", "env"}[r.IntN(2)], Operator: operators[r.IntN(len(operators)*4)%len(operators)],
		}
		if one.Operator == metav1.LabelSelectorOpIn || one.Operator == metav1.LabelSelectorOpNotIn {
			one.Values = []string{"prod", "b"}[:1+r.IntN(2)]
		}
		s.MatchExpressions = append(s.MatchExpressions, one)
	}
	return s
}

// randomRequest is for an object of any scope, with few labels, in a namespace that there is or
// is not.
func randomRequest(r *rand.Rand) request {
	made := request{
		version: "v1", resource: "pods", kind: "Pod", name: "x", op: admission.Create,
		namespace: []string{"prod", "test", "gone", ""}[r.IntN(4)],
	}
	if r.IntN(4) == 0 {
		made.resource, made.kind, made.namespace = "namespaces", "Namespace", ""
	}
	if r.IntN(3) == 0 {
		made.op, made.name = admission.Delete, "prod"
	}
	for _, key := range []string{"a", "env"} {
		if r.IntN(2) == 0 {
			if made.labels == nil {
				made.labels = map[string]any{}
			}
			made.labels[key] = []string{"prod", "b", "c"}[r.IntN(3)]
		}
	}
	return made
}

func TestSievesLetPassWhatMatchesOrFails(t *testing.T) {
	m := newMatcher()
	passed, held := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 3))
		a := randomRequest(r).attributes()
		var sieve match.Sieve
		var plans []*match.Plan
		for range 20 {
			c, err := match.Compile(&admissionregistration.MatchResources{
				NamespaceSelector: randomSelector(r), ObjectSelector: randomSelector(r),
			})
			if err != nil {
				t.Fatalf("compile: %v", err)
			}
			p := m.Plan(c, match.QuestionOf(a))
			var needs []match.Need
			if need, is := p.Need(); is {
				needs = append(needs, need)
			}
			sieve.Add(len(plans), needs)
			plans = append(plans, p)
		}
		passing := m.Passing(&sieve, a)
		if !slices.IsSorted(passing) || len(slices.Compact(slices.Clone(passing))) != len(passing) {
			t.Fatalf("seed %d: %v pass, not each once and in order", seed, passing)
		}
		for i, p := range plans {
			_, matches, err := m.Matches(p, a)
			switch passes := slices.Contains(passing, i); {
			case (matches || err != nil) && !passes:
				t.Fatalf("seed %d: plan %d does not pass; it matches: %t, error: %v", seed, i, matches, err)
			case err != nil && !p.Fails():
				t.Fatalf("seed %d: plan %d does not fail, but: %v", seed, i, err)
			case passes:
				passed++
			default:
				held++
			}
		}
	}
	if passed < 1000 || held < 1000 {
		t.Errorf("%d pass and %d do not: this shows nothing", passed, held)
	}
}
