package relay

import (
	"context"
	"errors"
	"io"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Grant is the permission of one open watch; see access.Grant.
type Grant interface {
	// Refused is closed when the watch is no longer allowed, and Err says why.
	Refused() <-chan struct{}
	Err() error
	Close()
}

// lookEvery is how often a watch without events looks whether it is still allowed.
const lookEvery = 5 * time.Second

// errLook wakes a watch to look.
var errLook = errors.New("time to look whether the watch is allowed")

// watch is a watch of the mirror under upstream's resourceVersions.
type watch struct {
	wire.Watch

	history *history
	asked   kube.ResourceVersion
	known   kube.ResourceVersion // what Position last returned
	grant   Grant                // nil: it is not checked again
	// holds reports whether the rows of a table are still upstream's; nil: it is no table.
	holds func(context.Context) bool
	leave func()

	// look is a context of the caller's that ends in time to look at the grant. It is kept
	// from one call of Next to the next: most come much earlier.
	look look
}

// look is a context with a deadline, made of another one.
type look struct {
	of, ctx context.Context //nolint:containedctx // the watch is the call
	cancel  context.CancelFunc
}

// within returns a context that ends with ctx, or within lookEvery.
func (l *look) within(ctx context.Context) context.Context {
	if l.of == ctx && l.ctx.Err() == nil {
		return l.ctx
	}
	l.close()
	l.of = ctx
	l.ctx, l.cancel = context.WithTimeoutCause(ctx, lookEvery, errLook)
	return l.ctx
}

func (l *look) close() {
	if l.cancel != nil {
		l.cancel()
	}
}

// Next implements wire.Watch. It returns the refusal once the watch is no longer allowed, and io.EOF when
// upstream shows objects otherwise than before.
func (w *watch) Next(ctx context.Context) ([]wire.WatchEvent, error) {
	if w.grant == nil && w.holds == nil {
		return w.next(ctx)
	}
	for {
		if w.grant != nil {
			select {
			case <-w.grant.Refused():
				return nil, w.grant.Err()
			default:
			}
		}
		events, err := w.next(w.look.within(ctx))
		looking := errors.Is(err, errLook) && ctx.Err() == nil
		if (looking || err == nil) && w.holds != nil && !w.holds(ctx) {
			return nil, io.EOF
		}
		if !looking {
			return events, err
		}
	}
}

func (w *watch) next(ctx context.Context) ([]wire.WatchEvent, error) {
	events, err := w.Watch.Next(ctx)
	if errors.Is(err, mirror.ErrReleased) {
		err = io.EOF // between two batches the cache would have said so
	}
	switch {
	case errors.Is(err, io.EOF) && w.history.replaced.Load():
		return nil, &kube.ExpiredError{
			Requested: max(w.asked, w.known), Oldest: w.history.log.Reached(), Reason: kube.ReasonReplaced,
			Kind: kube.ExpiredWatch,
		}
	case err != nil:
		return nil, w.history.translated(err, w.asked)
	}
	if n := len(events); n > 0 && events[n-1].Type == kube.InitialEventsEnd {
		end := &events[n-1]
		if end.ResourceVersion, err = w.history.version(int64(end.ResourceVersion), w.asked, kube.ExpiredWatch); err != nil { //nolint:gosec // a position
			return nil, err
		}
		if end.Since != 0 {
			end.Since = w.asked
		}
	}
	return events, nil
}

// Position implements wire.Watch. Within the difference of a re-list it does not move: a client
// that begins again from there gets all of the difference.
func (w *watch) Position() kube.ResourceVersion {
	at := w.Watch.Position()
	if at == 0 {
		return 0
	}
	w.known = max(w.known, w.history.log.Version(int64(at))) //nolint:gosec // a position
	return w.known
}

// Close implements wire.Watch.
func (w *watch) Close() {
	w.Watch.Close()
	w.leave()
}

// allow asks for the permission of a watch that is opened now.
func (r *Relay) allow(t kinds.Target, o wire.ListOptions) (Grant, error) {
	if r.cfg.Grant == nil || t.Caller == nil {
		return nil, nil
	}
	a := auth.Attributes{
		Verb: "watch", Resource: t.Resource.GR(), Version: t.Resource.Version, Namespace: t.Namespace, Name: t.Name,
		FieldSelector: o.Fields.String(), LabelSelector: o.Labels.String(),
	}
	if name, exact := o.Fields.RequiresExactMatch("metadata.name"); exact && a.Name == "" {
		a.Name = name
	}
	if t.Resource.IsNamespace() {
		a.Namespace = a.Name // as in route.Attributes
	}
	return r.cfg.Grant(t.Caller, a)
}

// GrantFunc returns the permission of a watch that is opened now, after it was allowed.
type GrantFunc func(u user.Info, a auth.Attributes) (Grant, error)
