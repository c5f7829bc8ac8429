package fault_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/fault"
)

// TestRulesChooseTheSameRequestsInTwoProcessesAsInOne plays the same requests through one set, and
// through one that another one continues.
func TestRulesChooseTheSameRequestsInTwoProcessesAsInOne(t *testing.T) {
	rules := func() []fault.Rule {
		refuse := &fault.Unavailable{}
		return []fault.Rule{
			{Name: "some", Match: fault.Match{Probability: 0.3}, Action: refuse},
			{Name: "few", Match: fault.Match{Every: 3, Probability: 0.5}, Action: refuse, Count: 8},
			{Name: "one", Match: fault.Match{Nth: 20}, Action: refuse},
			{Name: "none", Match: fault.Match{Until: 1}, Action: refuse},
		}
	}
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	play := func(set *fault.Set, requests int) (codes []int) {
		h := set.Handler(ok)
		for range requests {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil))
			codes = append(codes, w.Code)
		}
		return codes
	}
	const half = 40
	whole, first, second := fault.New(7), fault.New(7), fault.New(7)
	for _, set := range []*fault.Set{whole, first} {
		if err := set.Add(rules()...); err != nil {
			t.Fatalf("add a rule: %v", err)
		}
	}
	codes := play(first, half)
	if err := second.Continue(first.Rules()...); err != nil {
		t.Fatalf("continue: %v", err)
	}
	codes = append(codes, play(second, half)...)
	if diff := cmp.Diff(play(whole, 2*half), codes); diff != "" {
		t.Errorf("-one set +two:\n%s", diff)
	}
	for i, s := range second.Rules() {
		if w := whole.Rules()[i]; s.Matched != w.Matched || s.Acted != w.Acted || s.InWindow != w.InWindow {
			t.Errorf("%s: %+v, want %+v", w.Rule.Name, s, w)
		}
	}
}
