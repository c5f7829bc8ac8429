package gaplesstest

import (
	"errors"
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

// Backup implements faulthost.Host.
func (h host) Backup() error {
	left := h.current().disk.Copy()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.older = left
	return nil
}

// Restart implements faulthost.Host.
func (h host) Restart(with string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return errors.New("the server has ended")
	}
	h.background.Go(func() { // ends when the server is ready again
		if err := h.restart(fault.Store(with)); err != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.failed = append(h.failed, fmt.Errorf("restart by a fault with the data %q: %w", with, err))
		}
	})
	return nil
}
