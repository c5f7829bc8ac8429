package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// reader serves lists and watches under upstream's resourceVersions. It translates them for
// a registry.Reader over the mirror, which knows positions only.
type reader struct{ relay *Relay }

// aheadFor is how long a resourceVersion that the mirror has not reached is waited for.
// 3 s: apiserver cacher/watch_cache.go blockTimeout.
const aheadFor = 3 * time.Second

// Get implements apiserver.Reader. Single objects are read from upstream.
func (reader) Get(_ context.Context, t kinds.Target, _ string) (*wire.Object, error) {
	return nil, wire.NotFound(t.Resource.GR(), t.Name)
}

// over is the reader of one history.
func over(h *history) *registry.Reader {
	return registry.NewMirrorReader(func(kinds.Target) (*caches.Resource, error) { return h.cached, nil })
}

// count returns about how many objects a list has, at once.
func (r reader) count(t kinds.Target) int {
	c := r.relay.known(t.Resource)
	if c == nil {
		return 0
	}
	if h := c.current.Load(); h != nil {
		return over(h).Count(t)
	}
	return 0
}

// List implements apiserver.Reader.
func (r reader) List(ctx context.Context, t kinds.Target, o wire.ListOptions) (*wire.List, error) {
	if _, err := tableOf(ctx, t.Resource); err != nil {
		return nil, err
	}
	v, err := r.relay.enter(ctx, t.Resource)
	if err != nil {
		return nil, err
	}
	defer v.leave()
	c, h := v.collection, v.history
	c.fresh.account.read()
	if _, err := wire.PlanList(o); err != nil {
		return nil, err
	}
	asked := o.RV
	switch {
	case o.Continue != "":
		asked, err = h.token(ctx, c, &o, size(h, t, o))
	case o.ResourceVersion == "":
		err = c.stale(ctx, h, c.fresh.wait(ctx, h, read{size(h, t, o), true}))
	default:
		err = c.position(ctx, h, &o, kube.ExpiredList)
	}
	if err != nil {
		return nil, err
	}
	list, err := over(h).List(ctx, t, o)
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
	n := over(h).Count(t)
	if o.Limit > 0 && o.Limit < int64(n) {
		n = int(o.Limit)
	}
	return max(n, 1)
}

// position replaces the resourceVersion of a request by the position of that state. It waits for
// one that is ahead.
func (c *collection) position(ctx context.Context, h *history, o *wire.ListOptions, kind kube.ExpiredKind) error {
	if o.RV == 0 {
		return nil
	}
	at, err := c.find(ctx, h, o.RV, kind)
	if err != nil {
		return err
	}
	o.RV = kube.ResourceVersion(at) //nolint:gosec // positions are not negative
	o.ResourceVersion = o.RV.String()
	return nil
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
	return &kube.ExpiredError{Requested: ahead.Requested, Oldest: h.log.Reached(), Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
}

// token replaces the resourceVersion in a continue token by its position. size is that of the page.
// Pages of a state that the mirror has not reached are upstream's.
func (h *history) token(ctx context.Context, c *collection, o *wire.ListOptions, size int) (asked kube.ResourceVersion, err error) {
	rv, start, err := wire.DecodeContinue(o.Continue)
	if err != nil {
		return 0, err
	}
	if rv < 0 {
		return 0, c.fresh.wait(ctx, h, read{size, true})
	}
	asked = kube.ResourceVersion(rv)
	at, err := h.log.Position(asked, kube.ExpiredContinue)
	if expired, is := errors.AsType[*kube.ExpiredError](err); is {
		expired.Continue = wire.EncodeContinue(-1, start)
	}
	_, ahead := errors.AsType[*kube.TooLargeResourceVersionError](err)
	if err != nil && !ahead && asked > h.log.Reached() { // as in find
		var lost error
		if ahead, lost = c.fresh.upstreamReached(ctx, asked); lost != nil {
			return 0, lost
		}
	}
	if ahead {
		return 0, &PassError{why: "the mirror has not seen the state of these pages"}
	}
	if err == nil {
		o.Continue = wire.EncodeContinue(at, start)
	}
	return asked, err
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
	shows, err := tableOf(ctx, t.Resource)
	if err != nil {
		return nil, err
	}
	replaced := r.relay.Replaced(Reading{resource: t.Resource, watch: true}) // before the history is looked at
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
		if of, is := errors.AsType[*PassError](err); is {
			return nil, of.until(replaced)
		}
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
	asked := o.RV
	c.fresh.account.read()
	if plan.Start == wire.WatchInitialConsistent || plan.Start == wire.WatchFromNow {
		err = c.stale(ctx, h, c.fresh.wait(ctx, h, read{size: over(h).Count(t)}))
	} else {
		err = c.position(ctx, h, &o, kube.ExpiredWatch)
	}
	if ahead, is := errors.AsType[*kube.TooLargeResourceVersionError](err); is && plan.Start == wire.WatchAfter {
		err = c.lost(ctx, h, ahead)
	}
	if expired, is := errors.AsType[*kube.ExpiredError](err); is && plan.Start == wire.WatchAfter {
		if expired.Reason == mirror.ReasonUnseen {
			return nil, &PassError{why: "the mirror has not seen the changes from there on"}
		}
		r.relay.metrics.expire(c, err)
	}
	if err != nil {
		return nil, err
	}
	inner, err := over(h).Watch(ctx, t, o)
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
