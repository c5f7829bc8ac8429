package apiserver

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/apiserver/stream"
	"github.com/gapless-io/gapless/internal/audit"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// openWatch opens a watch within the limits of one client, and connects it with its
// client. The caller runs the feed, and calls release when it has ended. The feed is nil
// after an error, and when everything was answered.
func (s *Server) openWatch(
	w http.ResponseWriter, r *http.Request, rt resolved, user string,
) (f *feed.Feed, release func(), err error) {
	release, err = s.load.Take(r.Context(), s.load.Watches, user)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if f == nil { // also after a panic
			release()
		}
	}()
	opened, err := s.load.Take(r.Context(), s.load.Opening, user)
	if err != nil {
		return nil, nil, err
	}
	defer opened()
	f, err = s.watch(w, r, rt)
	return f, release, err
}

// watch reads the request for a watch, opens the watch, and connects a feed with the
// client.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, rt resolved) (*feed.Feed, error) {
	of, err := s.read(r, &rt)
	if err != nil {
		return nil, err
	}
	o := of.Options
	socket := stream.WantsUpgrade(r)
	if socket && !stream.SameOrigin(r) {
		return nil, wire.Forbidden(rt.Resource.GR(), "", "a WebSocket cannot be opened from the origin "+r.Header.Get("Origin"))
	}
	if s.feeds.Draining().Err() != nil {
		return nil, shuttingDown()
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	stop := context.AfterFunc(s.feeds.Draining(), func() { cancel(feed.ErrDraining) }) //nolint:contextcheck // the server's end is not the request's
	defer stop()
	rt.Name = "" // the options have it
	watching, err := of.Reader.Watch(ctx, rt.Target, o)
	switch {
	case err != nil && s.feeds.Draining().Err() != nil:
		return nil, shuttingDown()
	case err != nil && !inStream(err):
		return nil, err
	}
	zip := !socket && asksForStreamingList(o) && media.AcceptsGzip(r)
	f := feed.New(feed.Config{
		Watch: watching, Renderer: of.renderer, Metrics: s.metrics.Watching(&rt.Route), Bookmarks: o.Bookmarks, Gzip: zip,
		Every: o.BookmarkEvery(feed.BookmarkEvery), Deadline: time.Now().Add(s.watchTimeout(o)), Known: o.RV, Failed: err,
		Client: clientOf(r, &rt.Route),
	})
	w.Header().Set("Content-Type", render.Streamed(of.Form))
	if zip {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Add("Vary", "Accept-Encoding")
	}
	audited := audit.From(r.Context())
	if !socket { // before the client can see that it is open
		audited.Started(r.Context(), http.StatusOK)
	}
	if err := s.feeds.Connect(f, w, r); err != nil {
		f.Close()
		return nil, nil // the client is gone, or the handshake was answered
	}
	audited.Started(r.Context(), http.StatusSwitchingProtocols)
	return f, nil
}

// clientOf returns who opens a watch, without keeping the request.
func clientOf(r *http.Request, rt *route.Route) feed.Client {
	c := feed.Client{
		UserAgent: r.UserAgent(), Resource: rt.Resource.GR().String(), Version: rt.Resource.Version, Namespace: rt.Namespace,
		Since:         time.Now(),
		LabelSelector: strings.Clone(rt.Query.Get("labelSelector")), FieldSelector: strings.Clone(rt.Query.Get("fieldSelector")),
	}
	if rt.Caller != nil {
		c.User = rt.Caller.GetName()
	}
	return c
}

// asksForStreamingList reports whether a client asks for a streaming list: such clients can
// read a compressed one while it arrives. Upstream compresses also the state that a
// watch without a resourceVersion begins with (apiserver handlers/get.go
// isListWatchRequest, after defaulting): old clients ask so.
func asksForStreamingList(o wire.ListOptions) bool {
	return o.Bookmarks && o.InitialEvents != nil && *o.InitialEvents
}

func shuttingDown() error { return wire.Unavailable("apiserver is shutting down", time.Second) }

// inStream reports whether an error is sent as a frame of the stream: clients expect 200 and
// an ERROR frame (kube-rs loops on an HTTP 410).
func inStream(err error) bool {
	_, expired := errors.AsType[*kube.ExpiredError](err)
	_, tooLarge := errors.AsType[*kube.TooLargeResourceVersionError](err)
	return expired || tooLarge
}

// watchTimeout is how long the watch may last; negative: it ends at once.
func (s *Server) watchTimeout(o wire.ListOptions) time.Duration {
	if o.TimeoutSeconds != nil && *o.TimeoutSeconds != 0 {
		return time.Duration(*o.TimeoutSeconds) * time.Second
	}
	least := s.cfg.MinRequestTimeout
	return least + rand.N(least) // so that clients do not all reconnect at the same time
}
