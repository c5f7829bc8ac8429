package registry

import (
	"context"
	"errors"
	"math"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/caches"
	"github.com/gapless-io/gapless/internal/registry/stored"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// GetPast returns one object as it was, with the resourceVersion of the state: that of the moment or, for one
// that is a time, of the last change of the resource by then. Errors: 404, with that resourceVersion, if it did not
// exist then, 422 for a time in the future, *kube.ExpiredError, *kube.TooLargeResourceVersionError
// after 3 s, 500 while a value cannot be read.
func (r *Reader) GetPast(ctx context.Context, t kinds.Target, m wire.Moment) (*wire.Object, kube.ResourceVersion, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, 0, err
	}
	plan := wire.ListPlan{Mode: wire.ListExact, RV: m.RV, At: m.At, Limit: 1}
	if plan, err = atTime(ctx, cached, plan); err != nil {
		return nil, 0, err
	}
	state, err := stateFor(ctx, cached, t.Namespace, plan)
	if err != nil {
		return nil, 0, err
	}
	key := t.Key()
	for o, err := range r.scan(ctx, t, state, key.String(), watchcache.Selection{Namespace: key.Namespace, Name: key.Name}) {
		return o, state.RV(), err
	}
	return nil, state.RV(), wire.NotFound(t.Resource.GR(), t.Name)
}

// atTime gives a plan for a time the resourceVersion that the resource had then.
func atTime(ctx context.Context, cached *caches.Resource, plan wire.ListPlan) (wire.ListPlan, error) {
	if plan.At.IsZero() {
		return plan, nil
	}
	var err error
	plan.RV, err = cached.CommittedBy(ctx, "at", plan.At)
	return plan, err
}

// Changes returns a page of the changes of what a target and the options select, as its version shows the objects.
// Where the options do not say how far back, it is as far as history goes. Errors: 400 for a field that
// cannot be selected by, or by which converted objects would have to be selected, 422 for a time in the future,
// *kube.ExpiredError, *kube.TooLargeResourceVersionError after 3 s, those of conversions.
func (r *Reader) Changes(ctx context.Context, t kinds.Target, o wire.ChangesOptions) (*wire.Changes, error) {
	cached, err := r.of(t)
	if err != nil {
		return nil, err
	}
	if err := t.Resource.CheckFields(o.Fields); err != nil {
		return nil, err
	}
	if cached.Ended() {
		return nil, wire.NotFound(t.Resource.GR(), t.Name)
	}
	s, err := r.span(ctx, t, o, cached)
	if err != nil {
		return nil, err
	}
	found, err := cached.Changes(ctx, s)
	for whole := s.After == 0; whole && err != nil; { // more may be removed meanwhile
		expired, is := errors.AsType[*kube.ExpiredError](err)
		if !is || expired.Oldest <= s.After {
			break
		}
		if expired.Oldest > s.UpTo {
			own := *expired
			own.Requested = s.UpTo
			return nil, &own
		}
		s.After = expired.Oldest
		found, err = cached.Changes(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return r.page(ctx, t, s, found)
}

// span is what the options ask for, in resourceVersions.
func (r *Reader) span(ctx context.Context, t kinds.Target, o wire.ChangesOptions, cached *caches.Resource) (stored.Span, error) {
	sel := selection(t, o.ListOptions)
	if t.Resource.Readings != nil {
		sel.Read = cached.Read
	}
	if _, after := outside(t.Resource, sel); after != nil {
		return stored.Span{}, wire.BadRequest("changes of %s cannot be selected by labels or fields: a webhook converts them",
			t.Resource.GVR().GroupResource())
	}
	s := stored.Span{Newest: o.Newest, Limit: int(o.Limit), Selection: &sel, Previous: o.Previous}
	var err error
	if !o.Token.IsZero() {
		s.After, s.UpTo = kube.ResourceVersion(o.Token.After), kube.ResourceVersion(o.Token.UpTo)
		_, err = cached.Cache.WaitFresh(ctx, s.UpTo) // another replica may have given it out
		return s, err
	}
	s.After = o.After.RV
	if !o.After.At.IsZero() {
		if s.After, err = cached.CommittedBy(ctx, "since", o.After.At); err != nil {
			return s, err
		}
	}
	s.UpTo, err = until(ctx, cached, t, o.UpTo)
	if err == nil && s.After > s.UpTo {
		if o.After.At.IsZero() != o.UpTo.At.IsZero() && !o.UpTo.IsZero() {
			return s, o.Reversed()
		}
		_, err = cached.Cache.WaitFresh(ctx, s.After) // it is refused if it was never given out
		s.UpTo = s.After
	}
	return s, err
}

// until returns the resourceVersion of the last change that is asked for; it has been published.
func until(ctx context.Context, cached *caches.Resource, t kinds.Target, m wire.Moment) (kube.ResourceVersion, error) {
	if m.IsZero() {
		now, err := cached.Fresh(ctx, t.Namespace)
		if err != nil {
			return 0, err
		}
		return now.RV(), nil
	}
	rv := m.RV
	if !m.At.IsZero() {
		var err error
		if rv, err = cached.CommittedBy(ctx, "until", m.At); err != nil {
			return 0, err
		}
	}
	_, err := cached.Cache.WaitFresh(ctx, rv)
	return rv, err
}

// page is what was found, as a target's version shows it.
func (r *Reader) page(ctx context.Context, t kinds.Target, s stored.Span, found stored.Changes) (*wire.Changes, error) {
	page := &wire.Changes{After: found.After, UpTo: found.UpTo, Items: make([]wire.Change, 0, len(found.Changed))}
	for _, c := range found.Changed {
		event, _ := s.Selection.Event(c.Entry)
		change := wire.Change{WatchEvent: event, Time: c.Time}
		if s.Previous && event.Type == kube.Modified {
			change.Previous = c.Previous
			if s.Selection.Read != nil {
				change.Previous = s.Selection.Read(c.Previous)
			}
		}
		if err := r.showChange(ctx, t, &change); err != nil {
			return nil, err
		}
		page.Items = append(page.Items, change)
	}
	for _, h := range found.Holes {
		page.Gaps = append(page.Gaps, wire.Gap{After: h.From, UpTo: h.To})
	}
	next := wire.ChangesToken{Newest: s.Newest, After: int64(s.After), UpTo: int64(min(s.UpTo, math.MaxInt64))}
	switch {
	case s.Newest && found.After > s.After:
		next.UpTo = int64(found.After)
	case !s.Newest && found.UpTo < s.UpTo:
		next.After = int64(found.UpTo)
	default:
		return page, nil
	}
	page.Next = next.Made()
	return page, nil
}

// showChange shows the objects of a change in the target's version.
func (r *Reader) showChange(ctx context.Context, t kinds.Target, c *wire.Change) error {
	show := func(o *wire.Object) (*wire.Object, error) {
		if o == nil || t.AsStored {
			return o, nil
		}
		if r.converter == nil {
			return t.Resource.Shows()(o), nil
		}
		shown, err := r.converter.Show(ctx, t.Resource, o)
		if err != nil {
			return nil, err
		}
		return shown[0], nil
	}
	var err error
	if c.Object, err = show(c.Object); err == nil {
		c.Previous, err = show(c.Previous)
	}
	return err
}
