package apiserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/apiserver/stream"
	"github.com/gapless-io/gapless/kube"
)

// Why a watch ends, or wakes up, other than for events.
var (
	errTick     = errors.New("time for a bookmark or the end")
	errDraining = errors.New("server is draining")
	errLeft     = errors.New("client left")
)

// watch opens a watch. What it returns is to be run; nil after an error, and when
// everything was said.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, rt route) (*feed, error) {
	into, err := negotiate(r, verbWatch)
	if err != nil {
		return nil, err
	}
	p, err := newPainter(r, rt, into)
	if err != nil {
		return nil, err
	}
	o, err := watchOptions(r, &rt)
	if err != nil {
		return nil, err
	}
	socket := stream.WantsUpgrade(r)
	if socket && !stream.SameOrigin(r) {
		return nil, kube.Forbidden(rt.Resource.GR(), rt.Name, "a WebSocket cannot be opened from the origin "+r.Header.Get("Origin"))
	}
	if s.draining.Err() != nil {
		return nil, shuttingDown()
	}
	watching, opened, err := s.openWatch(r, rt, o)
	switch {
	case err != nil && s.draining.Err() != nil:
		return nil, shuttingDown()
	case err != nil && !inStream(err):
		return nil, err
	}
	f := &feed{
		stream: watching, painter: p, bookmarks: o.Bookmarks, every: o.BookmarkEvery(bookmarkEvery), sent: o.RV,
		metrics: s.metrics.watching(rt), failed: err, deadline: opened.Add(s.watchTimeout(o)),
	}
	f.zip = !socket && o.Bookmarks && f.initial() && acceptsGzip(r)
	w.Header().Set("Content-Type", mediaJSON)
	if f.zip { // apiserver handlers/get.go isListWatchRequest: streaming lists only
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
	}
	if err := s.attach(f, w, r, socket); err != nil {
		f.close()
		return nil, nil //nolint:nilerr // the client is gone, or the handshake was answered
	}
	return f, nil
}

// openWatch opens the watch behind the door; it gives up when the client leaves
// or the server drains.
func (s *Server) openWatch(r *http.Request, rt route, o kube.ListOptions) (w kube.Watch, opened time.Time, err error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.draining, func() { cancel(errDraining) }) //nolint:contextcheck // the server's end is not the request's
	defer stop()
	w, err = s.cfg.Reader.Watch(ctx, rt.Target, o)
	return w, time.Now(), err
}

// attach connects a feed with its client: by its own connection, where that can be
// had, so that the handler can return and nothing else is held.
//
//nolint:contextcheck // such a feed lives as long as the server, not its request
func (s *Server) attach(f *feed, w http.ResponseWriter, r *http.Request, socket bool) (err error) {
	f.detached = socket || stream.CanHijack(w, r)
	life := s.draining
	if !f.detached {
		life = r.Context()
	}
	ctx, cancel := context.WithCancelCause(life)
	f.ctx, f.cancel = ctx, cancel
	left := func() { cancel(errLeft) }
	s.open.begin() // before the connection is nobody's but ours
	switch {
	case socket:
		f.sink, err = stream.Upgrade(w, r, left)
	case f.detached:
		f.sink, err = stream.Hijack(w, f.zip, left)
	default:
		if f.sink, err = stream.Respond(w, r, f.zip); err == nil {
			f.undrain = context.AfterFunc(s.draining, func() { cancel(errDraining) })
		}
	}
	if err != nil {
		s.open.end()
		return err
	}
	s.open.add(f)
	return nil
}

func shuttingDown() error { return kube.Unavailable("apiserver is shutting down", time.Second) }

// watchOptions reads the query; a name in a deprecated /watch/ path becomes a
// field selector.
func watchOptions(r *http.Request, rt *route) (kube.ListOptions, error) {
	o, err := kube.ParseListOptions(r.URL.Query(), true)
	if err != nil {
		return o, err
	}
	if err := kube.CheckFields(o.Fields, rt.Resource.Fields); err != nil {
		return o, err
	}
	if rt.Name != "" {
		o.Fields = fields.AndSelectors(o.Fields, fields.OneTermEqualSelector("metadata.name", rt.Name))
		rt.Name = ""
	}
	return o, nil
}

// inStream says that an error belongs into the stream: clients expect a 200 and
// an ERROR frame (server.md 1.3; kube-rs loops on an HTTP 410).
func inStream(err error) bool {
	_, expired := errors.AsType[*kube.ExpiredError](err)
	_, tooLarge := errors.AsType[*kube.TooLargeResourceVersionError](err)
	return expired || tooLarge
}

// watchTimeout is how long the watch may last; negative: it ends at once.
func (s *Server) watchTimeout(o kube.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds != 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	least := s.cfg.MinRequestTimeout
	return least + rand.N(least) // so that clients do not come back all at once
}
