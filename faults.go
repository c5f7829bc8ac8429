package gapless

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"

	"github.com/gapless-io/gapless/internal/faulthost"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/failing"
)

// withFaults puts the faults of the configuration around a server that has its handler, and
// returns the listener with those of connections.
func (s *Server) withFaults(web *http.Server) net.Listener {
	faults := s.cfg.Faults
	if faults == nil {
		return s.listener
	}
	faulthost.Of(faults).SetAdministrator(s.asAdministrator)
	s.faulty = faults.Handler(web.Handler)
	web.Handler = s.faulty
	inner := web.ConnContext
	web.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return faults.ConnContext(inner(ctx, conn), conn)
	}
	return faults.Listener(s.listener)
}

// store returns a store as the registry has it: its writes fail on demand if there are faults.
func (s *Server) store(of store.Store) store.Store {
	if s.cfg.Faults == nil {
		return of
	}
	return failing.Store{Store: of, Controller: s.controllerWrite}
}

// controllerWrite does a write of a controller as the faults say.
func (s *Server) controllerWrite(ctx context.Context, name string, t store.Txn, write func() error) error {
	q := faulthost.Write{Controller: name, Verb: "update"}
	switch {
	case t.Delete:
		q.Verb = "delete"
	case t.ExpectedModRevision == 0:
		q.Verb = "create"
	}
	resource, object, _ := strings.Cut(t.Key, "/")
	q.Resource, q.Group, _ = strings.Cut(resource, ".")
	q.Namespace, q.Name = path.Split(object)
	q.Namespace = strings.TrimSuffix(q.Namespace, "/")
	return faulthost.Of(s.cfg.Faults).Write(ctx, q, write)
}

// asAdministrator makes a request one of the administrator: as if its connection had shown the
// certificate of the kubeconfig.
func (s *Server) asAdministrator(r *http.Request) {
	state, err := s.credentials.AdminConnection()
	if err != nil {
		s.cfg.Logger.WarnContext(r.Context(), "read the administrator's certificate", slog.Any("error", err))
		return // the request stays its caller's
	}
	r.Header.Del("Authorization")
	r.TLS = state
}
