package processtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Store says which data a server has after a restart. The values are those of package fault.
type Store string

// The data of RestartWith.
const (
	SameStore  Store = "same"
	WipedStore Store = "wiped"
	OlderStore Store = "older"
)

// Restart stops the server by SIGTERM and starts the program again on the same address, with
// the same certificates and everything that is stored: watches end with a last bookmark, requests
// in flight finish, and until it is ready connections are refused. A watch that has sent
// nothing yet lasts two seconds at least.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.RestartWith(t, SameStore)
}

// RestartWith is Restart with other data. WipedStore is a cluster that was created again, with the
// same address and certificates. OlderStore is one whose backup was restored: it has what was
// stored at the last Keep, or when the server was made, whichever came last. In both, resource
// versions go back: those that clients know are in the future at first, and name other states
// later.
func (s *Server) RestartWith(t testing.TB, store Store) {
	t.Helper()
	if err := s.restart(store); err != nil {
		t.Fatalf("processtest: restart the server with the data %q: %v", store, err)
	}
}

// Crash kills the process and starts the program again, as Restart does: connections are reset,
// watches end in the middle of whatever they were sending, and a write that was not answered has
// happened or not. What was answered is stored.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	s.changing.Lock()
	defer s.changing.Unlock()
	s.noteRules()
	if err := s.life().kill(); err != nil {
		t.Fatalf("processtest: %v", err)
	}
	if err := s.start(); err != nil {
		t.Fatalf("processtest: start the server again: %v", err)
	}
}

func (s *Server) life() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

func (s *Server) restart(store Store) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	switch store {
	case SameStore, WipedStore, OlderStore:
	default:
		return fmt.Errorf("there is no such data: want %s, %s or %s", SameStore, WipedStore, OlderStore)
	}
	s.noteRules()
	if err := s.life().stop(); err != nil {
		return err
	}
	if store != SameStore {
		if err := s.replace(store); err != nil {
			return fmt.Errorf("replace what is stored: %w", err)
		}
	}
	if err := s.start(); err != nil {
		return fmt.Errorf("start it again: %w", err)
	}
	if store == WipedStore {
		return s.keep(s.ctx)
	}
	return nil
}

// replace replaces the log of a server that does not run.
func (s *Server) replace(store Store) error {
	log := filepath.Join(s.data(), "log")
	if err := os.RemoveAll(log); err != nil || store == WipedStore {
		return err
	}
	if err := os.Mkdir(log, 0o700); err != nil {
		return err
	}
	kept := filepath.Join(s.data(), "kept") // which the server has made
	files, err := os.ReadDir(kept)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := copySparse(filepath.Join(log, f.Name()), filepath.Join(kept, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// copySparse copies a file without writing its zeros: most of a log is room for more.
func copySparse(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	const block = 256 << 10
	b, zeros := make([]byte, block), make([]byte, block)
	for offset := int64(0); ; {
		n, readErr := io.ReadFull(in, b)
		if !bytes.Equal(b[:n], zeros[:n]) {
			if _, err := out.WriteAt(b[:n], offset); err != nil {
				return err
			}
		}
		offset += int64(n)
		switch {
		case errors.Is(readErr, io.EOF), errors.Is(readErr, io.ErrUnexpectedEOF):
			return out.Truncate(offset)
		case readErr != nil:
			return readErr
		}
	}
}
