// Package faulthost connects the rules of package fault with the server that they make fail: who can restart that
// server with other data, who its administrator is, where it stores objects, and what its own controllers write. A
// server and package gaplesstest say and ask this; users of package fault have no need of it, so it is not in its API.
//
//	faulthost.Of(set).SetHost(host)
package faulthost

import (
	"context"
	"net/http"
	"sync"
)

// Host can do what no wrapper of a handler can.
type Host interface {
	// Backup keeps a copy of what is stored now, instead of the last one. It is called when
	// a rule is added that restarts the server with fault.OlderStore.
	Backup() error
	// Restart begins a restart of the server with a fault.Store and returns. It does not wait for requests that
	// are under way: one of them called it.
	Restart(store string) error
}

// Write is what a controller of the server is about to write.
type Write struct {
	Controller                             string
	Verb, Group, Resource, Namespace, Name string
}

// Writer calls write for one of the server's own controllers, or does what rules say instead.
type Writer func(ctx context.Context, w Write, write func() error) error

// Hidden is what a fault.Set embeds. The zero value is ready.
type Hidden struct{ server Server }

func (h *Hidden) of() *Server { return &h.server }

// Of returns what a *fault.Set knows of its server.
func Of(set interface{ of() *Server }) *Server { return set.of() }

// Server is what is known of the server. It is safe for concurrent use.
type Server struct {
	// mu guards what follows.
	mu      sync.Mutex
	host    Host
	noStore bool
	asAdmin func(*http.Request)
	writer  Writer
}

// SetHost says who restarts the server with other data. Without a host such rules are
// refused.
func (s *Server) SetHost(h Host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host = h
}

// Host returns who restarts the server with other data; nil: nobody.
func (s *Server) Host() Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// SetNoStore says that the store is in another process, where rules cannot reach it. Then such
// rules are refused.
func (s *Server) SetNoStore() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noStore = true
}

// NoStore reports whether the store is in another process.
func (s *Server) NoStore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noStore
}

// SetAdministrator says how a request is made one of the server's administrator, for actions
// that change objects. Without it such a request has the credentials of the caller whose
// request the rule matched.
func (s *Server) SetAdministrator(prepare func(*http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asAdmin = prepare
}

// AsAdministrator makes a request one of the server's administrator, if it is known how.
func (s *Server) AsAdministrator(r *http.Request) {
	s.mu.Lock()
	prepare := s.asAdmin
	s.mu.Unlock()
	if prepare != nil {
		prepare(r)
	}
}

// SetWriter says what rules do to writes of controllers; nil: nothing.
func (s *Server) SetWriter(w Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writer = w
}

// Write calls write for one of the server's own controllers, which writes without a
// request, or does what rules say: those with the action StoreWrite whose match names the
// controller as a user agent. Others are for the requests of clients only, so that a count or an
// nth does not depend on what controllers do meanwhile.
func (s *Server) Write(ctx context.Context, w Write, write func() error) error {
	s.mu.Lock()
	writer := s.writer
	s.mu.Unlock()
	if writer == nil {
		return write()
	}
	return writer(ctx, w, write)
}
