package apiserver

import (
	"net/http"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/wire"
)

// audit records that a request has arrived, if there is an audit log and its policy says so.
// The caller is nil if nobody knows who it is. What serves the request uses the one that it
// returns. Errors: 500, when the request must not be served without a record of it.
func (s *Server) audit(rec *recorder, r *http.Request, caller user.Info, at time.Time) (*http.Request, error) {
	if s.cfg.Audit == nil {
		return r, nil
	}
	ctx, audited, err := s.cfg.Audit.Begin(r.Context(), audit.Arrived{
		HTTP: r, ID: rec.Header().Get("Audit-Id"), At: at, Caller: caller,
	})
	if err != nil {
		return r, wire.Internal(err)
	}
	if audited == nil {
		return r, nil
	}
	rec.audited = audited
	return r.WithContext(ctx), nil
}

// knownAs is the caller, or nil if authentication has failed.
func knownAs(caller user.Info, err error) user.Info {
	if err != nil {
		return nil
	}
	return caller
}

// serveOpen answers a path that needs no credentials.
//
//nolint:contextcheck // the context that audit returns is the request's
func (s *Server) serveOpen(rec *recorder, r *http.Request, rt route.Route, at time.Time) {
	if s.cfg.Audit != nil {
		caller, err := s.cfg.Authenticator.Authenticate(r)
		if err != nil {
			caller = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
		}
		rt.Caller = caller
		if r, err = s.audit(rec, r, caller, at); err != nil {
			s.fail(rec, r, err)
			return
		}
		rec.audited.Decided(r.Context(), true, "")
	}
	if err := s.serveOther(rec, r, rt); err != nil {
		s.fail(rec, r, err)
	}
	rec.audited.Completed(r.Context(), rec.code)
}

// auditObject records an object that is the answer.
func auditObject(r *http.Request, renderer *render.Renderer, o *wire.Object) error {
	audited := audit.From(r.Context())
	if !audited.WantsResponse() {
		return nil
	}
	body, err := renderer.Plain(audited.DropsManagedFields()).Object(o)
	if err != nil {
		return err
	}
	audited.Answered(body)
	return nil
}

// auditList records a list that is the answer.
func auditList(r *http.Request, renderer *render.Renderer, l *wire.List) error {
	audited := audit.From(r.Context())
	if !audited.WantsResponse() {
		return nil
	}
	body, err := renderer.Plain(audited.DropsManagedFields()).List(l)
	if err != nil {
		return err
	}
	audited.Answered(body)
	return nil
}
