package gaplesstest

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/fault"
)

// Faults returns the rules by which requests to the server fail. They stay in force when it is
// restarted. Programs outside of the test change them with "gapless fault" and Kubeconfig.
func (s *Server) Faults() *fault.Set { return s.faults }

// Inject adds rules in the short form of docs/faults.md, like "gone,resources=pods,count=1". They
// stay until Faults removes them, or Reset, or until the server ends.
func (s *Server) Inject(t testing.TB, rules ...string) {
	t.Helper()
	parsed := make([]fault.Rule, 0, len(rules))
	for _, text := range rules {
		r, err := fault.ParseShort(text)
		if err != nil {
			t.Fatalf("gaplesstest: the rule %q: %v", text, err)
		}
		parsed = append(parsed, r)
	}
	if err := s.faults.Add(parsed...); err != nil {
		t.Fatalf("gaplesstest: add rules: %v", err)
	}
}

// host restarts the server for faults.
type host struct{ *Server }

// Restart implements fault.Host.
func (h host) Restart(store fault.Store) {
	s := h.Server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.background.Go(func() { // ends when the server is ready again
		if err := s.restart(store); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.failed = append(s.failed, fmt.Errorf("restart by a fault with %s data: %w", store, err))
		}
	})
}
