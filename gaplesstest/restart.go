package gaplesstest

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/seam"
)

// Restart stops the server as SIGTERM does and starts it again on the same address, with the
// same certificates and everything that is stored: watches end with a last bookmark, requests
// in flight finish, and until it is ready connections are refused. A watch that has sent
// nothing yet lasts two seconds at least.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.RestartWith(t, fault.SameStore)
}

// RestartWith is Restart with other data. WipedStore is a cluster that was created again, with the
// same address and certificates. OlderStore is one whose backup was restored: it has what was
// stored at the last Keep, when a rule that restores it was added, or when the server was made,
// whichever came last. In both, resource versions go back: those
// that clients know are in the future at first, and name other states later.
func (s *Server) RestartWith(t testing.TB, store fault.Store) {
	t.Helper()
	if err := s.restart(store); err != nil {
		t.Fatalf("gaplesstest: restart the server with the data %q: %v", store, err)
	}
}

// Crash kills the server and starts it again, as Restart does: connections are reset, watches
// end in the middle of whatever they were sending, and a write that was not answered has
// happened or not. What was answered is stored.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	s.changing.Lock()
	defer s.changing.Unlock()
	r := s.current()
	r.listener.kill()
	// Nothing is answered from here on, so the copy has all that was.
	left := r.disk.Copy()
	if err := r.kill(); err != nil {
		t.Fatalf("gaplesstest: kill the server: %v", err)
	}
	if err := s.start(left, r.listener.address.String()); err != nil {
		t.Fatalf("gaplesstest: start the server again: %v", err)
	}
}

func (s *Server) restart(store fault.Store) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	r := s.current()
	disk := r.disk
	switch store {
	case fault.SameStore:
	case fault.WipedStore:
		disk = seam.NewDisk()
	case fault.OlderStore:
		s.mu.Lock()
		disk = s.older.Copy()
		s.mu.Unlock()
	default:
		return fmt.Errorf("there is no such data: want %s, %s or %s", fault.SameStore, fault.WipedStore, fault.OlderStore)
	}
	if err := r.end(); err != nil {
		return fmt.Errorf("stop it: %w", err)
	}
	if err := s.start(disk, r.listener.address.String()); err != nil {
		return fmt.Errorf("start it again: %w", err)
	}
	if store == fault.WipedStore {
		return s.remember()
	}
	return nil
}
