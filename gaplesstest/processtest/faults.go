package processtest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"
)

// Fault is a rule by which requests fail, with what it has done.
type Fault struct {
	// Rule is the rule as JSON (docs/faults.md).
	Rule json.RawMessage `json:"rule"`
	// Name and Action are those of the rule.
	Name   string `json:"name"`
	Action string `json:"action"`
	// Matched counts the requests that fit, and Acted those that the action was applied to.
	Matched int64 `json:"matched"`
	Acted   int64 `json:"acted"`
	// Problem is why the action could not be carried out the last time; "" is no problem.
	Problem string `json:"problem,omitempty"`
}

// faultsAnswer is what the server answers about its rules.
type faultsAnswer struct {
	Rules []Fault `json:"rules"`
}

// Inject adds rules in the short form of docs/faults.md, like "gone,resources=pods,count=1". They
// stay, also when the server is restarted, until RemoveFault or ClearFaults removes them, or Reset,
// or until the server ends. A restart with other data is no rule here, but RestartWith.
func (s *Server) Inject(t testing.TB, rules ...string) {
	t.Helper()
	if len(rules) == 0 {
		return
	}
	s.change(t, http.MethodPost, faultsPath, rules)
}

// Faults returns the rules that are in force, in the order in which a request passes them.
func (s *Server) Faults(t testing.TB) []Fault {
	t.Helper()
	var all faultsAnswer
	if err := s.current().get(t.Context(), faultsPath, &all); err != nil {
		t.Fatalf("processtest: read the faults: %v", err)
	}
	return all.Rules
}

// RemoveFault removes the rule with a name. What its action still does to requests ends.
func (s *Server) RemoveFault(t testing.TB, name string) {
	t.Helper()
	if name == "" { // its path would be that of all rules
		t.Fatalf("processtest: remove a fault: %v", errors.New("its name is empty"))
	}
	s.change(t, http.MethodDelete, ruleURL(name), nil)
}

// ClearFaults removes all rules.
func (s *Server) ClearFaults(t testing.TB) {
	t.Helper()
	s.change(t, http.MethodDelete, faultsPath, nil)
}

// change changes the rules. The answer has those that are in force then.
func (s *Server) change(t testing.TB, method, path string, body any) {
	t.Helper()
	answer, err := s.current().do(t.Context(), method, path, body)
	if err != nil {
		t.Fatalf("processtest: change the faults: %v", err)
	}
	s.know(answer)
}

// know remembers the rules for the next process; nil are none.
func (s *Server) know(answer []byte) {
	var all faultsAnswer
	if json.Unmarshal(answer, &all) != nil || len(all.Rules) == 0 {
		answer = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = answer
}

// askWithin bounds a question that the server can do without answering.
const askWithin = 5 * time.Second

// noteRules asks what the rules have counted, before the process ends. While a rule keeps the
// server away, what was known before is all.
func (s *Server) noteRules() {
	ctx, cancel := context.WithTimeout(s.ctx, askWithin)
	defer cancel()
	if answer, err := s.current().do(ctx, http.MethodGet, faultsPath, nil); err == nil {
		s.know(answer)
	}
}
