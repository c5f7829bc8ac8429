package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/feed"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// aggregated returns what other servers serve, nil if that is nothing.
func (s *Server) aggregated() *aggregator.Versions {
	if s.cfg.Aggregator == nil {
		return nil
	}
	return s.cfg.Aggregator.Versions()
}

// pass passes a request on to the server behind. It takes a place as a request that this server answers does, a watch
// one of those of watches.
func (s *Server) pass(rec *recorder, r *http.Request, q resolved, sender string) error {
	lasting := lasts(r, &q.Route)
	kind := s.load.Reading
	switch {
	case lasting:
		kind = s.load.Watches
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions:
		kind = s.load.Writing
	}
	release, err := s.load.Take(r.Context(), kind, sender)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	ctl := http.NewResponseController(rec)
	if lasting {
		// Of an earlier request on the same connection. Without support there is none.
		_, _ = ctl.SetReadDeadline(time.Time{}), ctl.SetWriteDeadline(time.Time{})
		if s.feeds.Draining().Err() != nil {
			return shuttingDown()
		}
		//nolint:contextcheck // the server's end is not the request's
		defer context.AfterFunc(s.feeds.Draining(), func() { cancel(feed.ErrDraining) })()
		defer s.metrics.LongRunning(&q.Route)()
	} else {
		timeout, err := wire.ParseTimeout(q.Query)
		if err != nil {
			return err
		}
		if timeout <= 0 || timeout > defaultDeadline {
			timeout = defaultDeadline
		}
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, timeout)
		defer end()
		last := time.Now().Add(timeout)
		_ = ctl.SetReadDeadline(last.Add(time.Second)) // as of serveLimited
		_ = ctl.SetWriteDeadline(last.Add(answerWithin))
		inFlight := s.metrics.InFlight(&q.Route)
		inFlight.Inc()
		defer inFlight.Dec()
	}
	return q.behind.Serve(rec, r.WithContext(ctx), aggregator.Request{ //nolint:contextcheck // ctx is that of the request
		Caller: q.Caller,
		Answered: func(code int) {
			if lasting {
				rec.audited.Started(ctx, code)
			}
			if code == http.StatusSwitchingProtocols && rec.code == 0 {
				rec.code = code // the connection is taken over: nothing is written through rec
			}
		},
	})
}

// lasts reports whether a request lasts until its client ends it: those that kube-apiserver counts as long-running
// (pkg/controlplane/apiserver), and those that may switch to another protocol.
func lasts(r *http.Request, rt *route.Route) bool {
	if aggregator.Switches(r.Header) {
		return true
	}
	a := rt.Attributes(r)
	return a.Verb == string(route.Watch) || a.Verb == "proxy" ||
		slices.Contains([]string{"attach", "exec", "proxy", "log", "portforward"}, a.Subresource)
}

// notServed is 404 for a path below /api or /apis at which nothing is served, and another error if that is not known.
func (s *Server) notServed(catalog *kinds.Catalog, path []string) error {
	if s.cfg.Aggregator == nil || len(path) < 3 || path[0] != "apis" {
		return route.NotServed(catalog, path)
	}
	if _, here := findVersion(catalog, path[1], path[2]); here {
		return route.NotServed(catalog, path)
	}
	if err := s.cfg.Aggregator.Unknown(path[1], path[2]); err != nil {
		return err
	}
	if others := s.aggregated().Of(path[1]); len(others) > 0 {
		why := fmt.Sprintf("%s/%s is not served, there is %s", path[1], path[2], others[0].Version)
		return wire.NotServed(schema.GroupResource{Group: path[1]}, "", why)
	}
	return route.NotServed(catalog, path)
}
