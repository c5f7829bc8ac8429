package apiserver

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/wire"
)

// get answers one object.
func (s *Server) get(w http.ResponseWriter, r *http.Request, q resolved) error {
	rt := q.Route
	if wire.AsksForChanges(rt.Query) {
		return s.changes(w, r, q)
	}
	if wire.ParseBool(rt.Query, "export") { // apiserver handlers/get.go
		return wire.BadRequest("the export parameter, deprecated since v1.14, is no longer supported")
	}
	into, err := render.Negotiate(r, &rt)
	if err != nil {
		return err
	}
	renderer, err := render.New(&rt, into)
	if err != nil {
		return err
	}
	renderer.Share(&s.events)
	past, err := wire.ParseMoment(rt.Query)
	if err != nil {
		return err
	}
	var o *wire.Object
	if past.IsZero() {
		o, err = s.cfg.Reader.Get(r.Context(), rt.Target, rt.Query.Get("resourceVersion"))
	} else {
		o, err = s.getPast(w, r, q, past)
	}
	if err != nil {
		return err
	}
	body, err := renderer.Parts(o)
	if err == nil {
		err = auditObject(r, renderer, o)
	}
	if err != nil {
		return err
	}
	render.Write(w, into, http.StatusOK, body...)
	return nil
}

// list answers a collection.
func (s *Server) list(w http.ResponseWriter, r *http.Request, rt resolved) error {
	if wire.AsksForChanges(rt.Query) {
		return s.changes(w, r, rt)
	}
	of, err := s.read(r, &rt)
	if err != nil {
		return err
	}
	l, err := of.Reader.List(r.Context(), rt.Target, of.Options)
	if err != nil {
		return err
	}
	if !of.Options.At.IsZero() {
		w.Header().Set(pastHeader, l.ResourceVersion.String())
	}
	if err := auditList(r, of.renderer, l); err != nil {
		return err
	}
	begun, err := s.lists.Write(w, of.Form, of.renderer, l)
	return s.cutOff(r.Context(), begun, err)
}

// cutOff ends a list that could not be written to its end: history was compacted
// while it was read, its time was over, or an object cannot be shown as a row. Before
// the answer has begun the error is the answer. Later the connection is cut, since a
// part of a list must not look like a complete list.
func (s *Server) cutOff(ctx context.Context, begun bool, err error) error {
	if err == nil || !begun {
		return err
	}
	s.logger.WarnContext(ctx, "list was cut off", slog.Any("error", err))
	panic(http.ErrAbortHandler)
}
