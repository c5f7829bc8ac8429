package faulthost_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/faulthost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// set embeds what fault.Set does.
type set struct{ faulthost.Hidden }

func TestWithoutAServerNothingIsKnown(t *testing.T) {
	s := faulthost.Of(new(set))
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer x"}}}
	s.AsAdministrator(r)
	if s.Host() != nil || s.NoStore() || r.Header.Get("Authorization") != "Bearer x" {
		t.Errorf("a new set has the host %v, no store: %t, and sends %v", s.Host(), s.NoStore(), r.Header)
	}
	wrote := 0
	if err := s.Write(t.Context(), faulthost.Write{}, func() error { wrote++; return nil }); err != nil || wrote != 1 {
		t.Errorf("a write without rules: %v, written %d times", err, wrote)
	}
}

func TestASetKnowsItsServer(t *testing.T) {
	of := new(set)
	s, refused := faulthost.Of(of), errors.New("refused")
	s.SetNoStore()
	s.SetAdministrator(func(r *http.Request) { r.Header.Del("Authorization") })
	s.SetWriter(func(_ context.Context, w faulthost.Write, _ func() error) error {
		if w.Controller != "gc" {
			t.Errorf("it writes as %q", w.Controller)
		}
		return refused
	})
	again := faulthost.Of(of)
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer x"}}}
	again.AsAdministrator(r)
	if !again.NoStore() || r.Header.Get("Authorization") != "" {
		t.Errorf("no store: %t, and an administrator sends %v", again.NoStore(), r.Header)
	}
	if err := again.Write(t.Context(), faulthost.Write{Controller: "gc"}, nil); !errors.Is(err, refused) {
		t.Errorf("a write that rules refuse: %v", err)
	}
}
