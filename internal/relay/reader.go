package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// reader serves a list or a watch under upstream's resourceVersions. It translates them for
// a registry.Reader over the mirror, which knows positions only.
type reader struct {
	relay *Relay
	table *decision // nil: it is not for a table
}

// aheadFor is how long a resourceVersion that the mirror has not reached is waited for.
// 3 s: apiserver cacher/watch_cache.go blockTimeout.
const aheadFor = 3 * time.Second

// Get implements apiserver.Reader. Single objects are read from upstream.
func (reader) Get(_ context.Context, t kinds.Target, _ string) (*wire.Object, error) {
	return nil, wire.NotFound(t.Resource.GR(), t.Name)
}

// List implements apiserver.Reader.
func (r reader) List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error) {
	if r.table != nil {
		if err := r.relay.tables.check(r.table); err != nil {
			return nil, err
		}
	}
	v, err := r.relay.enter(ctx, t.Resource)
	if err != nil {
		return nil, err
	}
	defer v.leave()
	c, h := v.collection, v.history
	c.fresh.account.read()
	plan, err := wire.PlanList(o)
	if err != nil {
		return nil, err
	}
	asked := plan.RV
	switch plan.Mode {
	case wire.ListContinue:
		err = h.token(ctx, c, &plan)
	case wire.ListContinueLatest:
		err = c.fresh.wait(ctx, h, read{size(h, t, o), true})
	case wire.ListMostRecent:
		err = c.stale(ctx, h, c.fresh.wait(ctx, h, read{size(h, t, o), true}))
	case wire.ListNotOlderThan, wire.ListExact:
		plan.RV, err = c.position(ctx, h, plan.RV, kube.ExpiredList)
	case wire.ListAny:
	}
	if err != nil {
		return nil, err
	}
	list, err := h.reader.ListPlanned(ctx, t, o, plan)
	if err != nil {
		return nil, h.translated(err, asked)
	}
	at := int64(list.ResourceVersion) //nolint:gosec // a position
	if list.ResourceVersion, err = h.version(at, asked, kube.ExpiredList); err != nil {
		return nil, err
	}
	if list.Continue != "" {
		_, start, err := wire.DecodeContinue(list.Continue)
		if err != nil {
			return nil, err
		}
		list.Continue = wire.EncodeContinue(int64(list.ResourceVersion), start) //nolint:gosec // revisions fit
	}
	list.History = h.number
	items := list.Items
	list.Items = func(yield func(*wire.Object, error) bool) {
		for o, err := range items {
			if !yield(o, h.translated(err, asked)) {
				return
			}
		}
	}
	r.relay.metrics.lists.WithLabelValues(c.name).Inc()
	return list, nil
}

// size returns about how many objects a list has, at least 1.
func size(h *history, t kinds.Target, o wire.ListOptions) int {
	n := h.reader.Count(t)
	if o.Limit > 0 && o.Limit < int64(n) {
		n = int(o.Limit)
	}
	return max(n, 1)
}

// position returns the position of the state at a resourceVersion. It waits for one that is ahead.
func (c *collection) position(
	ctx context.Context, h *history, rv kube.ResourceVersion, kind kube.ExpiredKind,
) (kube.ResourceVersion, error) {
	if rv == 0 {
		return 0, nil
	}
	at, err := c.find(ctx, h, rv, kind)
	return kube.ResourceVersion(at), err //nolint:gosec // positions are not negative
}

// find returns the position of a resourceVersion. It waits for one that is ahead.
func (c *collection) find(ctx context.Context, h *history, rv kube.ResourceVersion, kind kube.ExpiredKind) (int64, error) {
	at, err := h.log.Position(rv, kind)
	if err == nil || rv <= h.log.Reached() {
		return at, err
	}
	if expired, is := errors.AsType[*kube.ExpiredError](err); is {
		// The former history had it. So may the new one, which has not grown as long.
		if reached, err := c.fresh.upstreamReached(ctx, rv); err != nil {
			return 0, err
		} else if !reached {
			return 0, expired
		}
	}
	soon, stop := context.WithTimeout(ctx, followWithin)
	err = h.log.Wait(soon, rv) // most are not ahead by more than a moment
	stop()
	if err == nil {
		return h.log.Position(rv, kind)
	}
	if _, err = c.fresh.proven(ctx, h, rv, c.fresh.probe); err != nil {
		return 0, err
	}
	return h.log.Position(rv, kind)
}

// lost returns the error for a watch from a resourceVersion that was waited for in vain: 410 if upstream
// has not reached it either, because then it is of another history, or of none. kube-apiserver stays
// silent about such a watch.
func (c *collection) lost(ctx context.Context, h *history, ahead *kube.TooLargeResourceVersionError) error {
	reached, err := c.fresh.upstreamReached(ctx, ahead.Requested)
	if err != nil || reached {
		return ahead
	}
	return &kube.ExpiredError{
		Requested: ahead.Requested, Oldest: h.log.Reached(), Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch,
	}
}

// token replaces the resourceVersion of a continue token by its position.
// Pages of a state that the mirror has not reached are upstream's.
func (h *history) token(ctx context.Context, c *collection, plan *wire.ListPlan) error {
	asked := plan.RV
	at, err := h.log.Position(asked, kube.ExpiredContinue)
	if expired, is := errors.AsType[*kube.ExpiredError](err); is {
		expired.Continue = wire.EncodeContinue(-1, plan.Start)
	}
	_, ahead := errors.AsType[*kube.TooLargeResourceVersionError](err)
	if err != nil && !ahead && asked > h.log.Reached() { // as in find
		var lost error
		if ahead, lost = c.fresh.upstreamReached(ctx, asked); lost != nil {
			return lost
		}
	}
	if ahead {
		return &apiserver.FallbackError{Why: "the mirror has not seen the state of these pages"}
	}
	plan.RV = kube.ResourceVersion(at) //nolint:gosec // positions are not negative
	return err
}

// version returns the resourceVersion of the state at a position that was just read. asked is what
// the client asked for. Errors: *kube.ExpiredError if it was compacted since.
func (h *history) version(at int64, asked kube.ResourceVersion, kind kube.ExpiredKind) (kube.ResourceVersion, error) {
	rv := h.log.Version(at)
	if rv == 0 {
		return 0, &kube.ExpiredError{Requested: asked, Oldest: h.log.Oldest(at), Kind: kind}
	}
	return rv, nil
}

// translated returns an error of the mirror's reader with resourceVersions in the place of
// positions. asked is what the client asked for.
func (h *history) translated(err error, asked kube.ResourceVersion) error {
	if e, is := errors.AsType[*kube.ExpiredError](err); is {
		own := *e
		own.Requested, own.Oldest = asked, h.log.Version(int64(e.Oldest)) //nolint:gosec // a position
		if e.Kind == kube.ExpiredContinue && e.Continue != "" {
			return &own // its token names no resourceVersion
		}
		return &own
	}
	if _, is := errors.AsType[*kube.TooLargeResourceVersionError](err); is {
		return &kube.TooLargeResourceVersionError{Requested: asked, Current: h.log.Reached()}
	}
	return err
}

// Watch implements apiserver.Reader.
func (r reader) Watch(ctx context.Context, t kinds.Target, o wire.ListOptions) (wire.Watch, error) {
	shows := r.table
	if shows != nil {
		if err := r.relay.tables.check(shows); err != nil {
			return nil, err
		}
	}
	v, err := r.relay.enter(ctx, t.Resource)
	if err != nil {
		return nil, err
	}
	if shows != nil {
		if v, err = r.relay.tables.hold(ctx, shows, v); err != nil {
			return nil, err
		}
	}
	w, err := r.open(ctx, v, t, o)
	if err != nil {
		v.leave()
		return nil, err
	}
	w.leave = v.leave
	if shows != nil {
		w.holds = func(ctx context.Context) bool { return r.relay.tables.holds(ctx, shows) }
	}
	if w.grant, err = r.relay.allow(t, o); err != nil {
		w.Close()
		return nil, err
	}
	w.leave = sync.OnceFunc(func() {
		v.leave()
		w.look.close()
		if w.grant != nil {
			w.grant.Close()
		}
	})
	return w, nil
}

func (r reader) open(ctx context.Context, v visit, t kinds.Target, o wire.ListOptions) (*watch, error) {
	c, h := v.collection, v.history
	plan, err := wire.PlanWatch(o)
	if err != nil {
		return nil, err
	}
	asked := plan.RV
	c.fresh.account.read()
	if plan.Start == wire.WatchInitialConsistent || plan.Start == wire.WatchFromNow {
		err = c.stale(ctx, h, c.fresh.wait(ctx, h, read{size: h.reader.Count(t)}))
	} else {
		plan.RV, err = c.position(ctx, h, plan.RV, kube.ExpiredWatch)
	}
	if ahead, is := errors.AsType[*kube.TooLargeResourceVersionError](err); is && plan.Start == wire.WatchAfter {
		err = c.lost(ctx, h, ahead)
	}
	if expired, is := errors.AsType[*kube.ExpiredError](err); is && plan.Start == wire.WatchAfter {
		if expired.Reason == kube.ReasonUnseen {
			return nil, &apiserver.FallbackError{Why: "the mirror has not seen the changes from there on"}
		}
		r.relay.metrics.expire(c, err)
	}
	if err != nil {
		return nil, err
	}
	inner, err := h.reader.WatchPlanned(ctx, t, o, plan)
	if err != nil {
		err = h.translated(err, asked)
		r.relay.metrics.expire(c, err)
		return nil, err
	}
	if plan.Start == wire.WatchAfter {
		r.relay.metrics.resumed.WithLabelValues(c.name).Inc()
	}
	return &watch{Watch: inner, history: h, asked: asked}, nil
}
