package gaplesstest

import (
	"testing"
)

// Restart stops the server as SIGTERM does and starts it again on the same address, with the
// same certificates and everything that is stored: watches end with a last bookmark, requests
// in flight finish, and until it is ready connections are refused. A watch that has sent
// nothing yet lasts two seconds at least.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	r := s.current()
	r.stop()
	if err := <-r.ended; closed(err) != nil {
		t.Fatalf("gaplesstest: stop the server: %v", err)
	}
	s.again(t, r)
}

// Crash kills the server and starts it again, as Restart does: connections are reset, watches
// end in the middle of whatever they were sending, and a write that was not answered has
// happened or not. What was answered is stored.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	r := s.current()
	r.listener.kill()
	// Nothing is answered from here on, so the copy has all that was.
	left := r.disk.Copy()
	r.stop()
	if err := <-r.ended; closed(err) != nil {
		t.Fatalf("gaplesstest: kill the server: %v", err)
	}
	r.disk = left
	s.again(t, r)
}

func (s *Server) again(t testing.TB, r *run) {
	t.Helper()
	if err := s.start(r.disk, r.listener.address.String()); err != nil {
		t.Fatalf("gaplesstest: start the server again: %v", err)
	}
}
