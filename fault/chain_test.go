package fault_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/fault"
)

// code sends a request through a set and returns the code of the answer; 0 if the connection
// ends instead.
func code(t testing.TB, h http.Handler, method, target string) (code int) {
	t.Helper()
	defer func() {
		if cause := recover(); cause != nil && cause != http.ErrAbortHandler { //nolint:errorlint // as net/http does
			panic(cause)
		}
	}()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, target, nil))
	return w.Code
}

func TestRulesApplyInTheirOrder(t *testing.T) {
	s := fault.New(1)
	if err := s.Add(fault.Rule{Name: "first", Action: &fault.Unauthorized{}, Count: 1}, fault.Rule{
		Name: "second", Action: &fault.Unavailable{}, Count: 1,
	}); err != nil {
		t.Fatalf("add: %v", err)
	}
	h := s.Handler(fine())
	for i, want := range []int{401, 503, 200} {
		if got := code(t, h, "GET", "/api/v1/pods"); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	for _, state := range s.Rules() {
		if state.Acted != 1 || state.Matched < 2 {
			t.Errorf("%s: %d matched, %d acted", state.Rule.Name, state.Matched, state.Acted)
		}
	}
}

func TestRuleWithoutVerbsIsForThoseOfItsAction(t *testing.T) {
	for _, k := range fault.Kinds() {
		if k.Verbs == nil || slices.Contains([]string{"definition", "lost-answer", "store-write"}, k.Name) {
			continue
		}
		r, err := fault.ParseShort(k.Name)
		if err != nil {
			t.Fatalf("parse the rule: %v", err)
		}
		s := fault.New(1)
		if err := s.Add(r); err != nil {
			t.Fatalf("add: %v", err)
		}
		h := s.Handler(fine())
		for _, target := range []string{"/version", "/api/v1/namespaces/x/pods/y/log"} {
			if got := code(t, h, "POST", target); got != 200 {
				t.Errorf("%s of POST %s: %d", k.Name, target, got)
			}
		}
		if state := s.Rules()[0]; state.Matched != 0 {
			t.Errorf("%s has matched %d requests that it can do nothing to", k.Name, state.Matched)
		}
	}
}

// TestRequestsOfActionsReachNoRule: stale asks for the state to answer from, and the rule behind
// it counts only what the client has asked.
func TestRequestsOfActionsReachNoRule(t *testing.T) {
	s := fault.New(1)
	if err := s.Add(fault.Rule{Action: &fault.Stale{Quorum: true}}, fault.Rule{
		Action: &fault.Unavailable{}, Match: fault.Match{Nth: 2},
	}); err != nil {
		t.Fatalf("add: %v", err)
	}
	asked := 0
	h := s.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte(`{"kind":"PodList","metadata":{"resourceVersion":"5"}}`))
	}))
	for i, want := range []int{200, 503} {
		if got := code(t, h, "GET", "/api/v1/pods"); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	if asked != 2 {
		t.Errorf("the server was asked %d times", asked)
	}
}

func TestRemovalOfARestartEndsItWhileOtherRulesRemain(t *testing.T) {
	s := fault.New(1)
	if err := s.Add(fault.Rule{Name: "restart", Action: &fault.Restart{}, Count: 1}, fault.Rule{
		Action: &fault.Unavailable{}, Match: fault.Match{Verbs: []string{"post"}},
	}); err != nil {
		t.Fatalf("add: %v", err)
	}
	h := s.Handler(fine())
	acted := func() (aborted bool) {
		defer func() { aborted = recover() != nil }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/version", nil))
		return
	}
	for range 2 {
		if !acted() {
			t.Error("no restart")
		}
	}
	s.Remove("restart")
	if acted() {
		t.Error("the restart goes on")
	}
}
