package relay

import (
	"cmp"
	"context"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// GetPast implements apiserver.Reader. Times are those at which the relay saw a change.
func (r reader) GetPast(ctx context.Context, t kinds.Target, m wire.Moment) (*wire.Object, kube.ResourceVersion, error) {
	v, err := r.relay.enter(ctx, t.Resource)
	if err != nil {
		return nil, 0, err
	}
	defer v.leave()
	c, h, asked := v.collection, v.history, m.RV
	c.fresh.account.read()
	if m.RV, err = c.position(ctx, h, m.RV, kube.ExpiredList); err != nil {
		return nil, 0, err
	}
	o, at, err := h.reader.GetPast(ctx, t, m)
	if err != nil && at == 0 {
		return nil, 0, h.translated(err, asked)
	}
	// Before the relay began nothing is known, also not that there was no such object.
	rv, before := h.version(int64(at), asked, kube.ExpiredList) //nolint:gosec // a position
	if before != nil {
		return nil, 0, before
	}
	if err != nil {
		return nil, 0, h.translated(err, asked)
	}
	return o, rv, nil
}

// Changes implements apiserver.Reader. Times are those at which the relay saw a change.
func (r reader) Changes(ctx context.Context, t kinds.Target, o wire.ChangesOptions) (*wire.Changes, error) {
	v, err := r.relay.enter(ctx, t.Resource)
	if err != nil {
		return nil, err
	}
	defer v.leave()
	c, h, asked := v.collection, v.history, cmp.Or(o.After.RV, o.UpTo.RV)
	c.fresh.account.read()
	switch {
	case !o.Token.IsZero():
		if o.Token.History != h.log.Epoch() {
			return nil, &kube.ExpiredError{Oldest: h.log.Reached(), Reason: kube.ReasonReplaced, Kind: kube.ExpiredWatch}
		}
	case o.UpTo.IsZero():
		err = c.stale(ctx, h, c.fresh.wait(ctx, h, read{size: 1}))
	default:
		o.UpTo.RV, err = c.position(ctx, h, o.UpTo.RV, kube.ExpiredWatch)
	}
	if err == nil {
		o.After.RV, err = c.position(ctx, h, o.After.RV, kube.ExpiredWatch)
	}
	if err != nil {
		return nil, err
	}
	page, err := h.reader.Changes(ctx, t, o)
	if err != nil {
		return nil, h.translated(err, asked)
	}
	after, upTo := int64(page.After), int64(page.UpTo) //nolint:gosec // positions
	page.Gaps = h.log.Gaps(after, upTo)
	page.After = h.log.Version(after)                    // 0: it is where the history begins
	if page.UpTo = h.log.Version(upTo); page.UpTo == 0 { // it is inside what was before the relay
		page.UpTo = h.log.Oldest(upTo)
	}
	if !page.Next.IsZero() {
		page.Next.History = h.log.Epoch()
	}
	return page, nil
}
