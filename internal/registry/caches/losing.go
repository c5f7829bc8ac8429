package caches

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// What the publisher does with values that cannot be read, where others can write to the store.

const (
	// againEvery is how often it is tried to read such values again: a key may be configured by then.
	againEvery = 5 * time.Second
	// mostTried bounds how many values of a resource are tried then, since nothing is published meanwhile: the
	// next ones the next time. If one can be read, all are.
	mostTried = 8
)

// entry makes the entry of a change; nil if there is none, because a value cannot be read.
func (p *Publisher) entry(ctx context.Context, r *Resource, c store.Change) (*watchcache.Entry, error) {
	if c.Unreadable != nil {
		p.lose(ctx, r, c.Unreadable)
		return nil, nil //nolint:nilerr // lose has noted it
	}
	key, rv := r.KeyOf(c.Key), kube.ResourceVersion(c.Revision)
	if c.Deleted && (r.unread.get(key, 0) != nil || c.Previous != nil && c.Previous.Unreadable != nil) {
		p.restore(r, key, rv)
		last := p.latest(r, key)
		if last == nil {
			return nil, nil // nobody has ever seen it
		}
		return r.Deletion(c, last)
	}
	e, err := r.entry(c)
	if why, is := errors.AsType[*store.UnreadableError](err); is && p.set.shared && !c.Deleted {
		p.lose(ctx, r, why)
		return nil, nil
	}
	if err == nil {
		p.restore(r, key, rv)
	}
	return e, err
}

// latest returns an object as all see it when what is pending is appended; nil if there is none.
func (p *Publisher) latest(r *Resource, key wire.Key) *wire.Object {
	e := p.pending[r].latest(key)
	switch {
	case e == nil:
		o, _ := r.Cache.Snapshot().Get(key)
		return o
	case e.Deleted:
		return nil
	}
	return e.Object
}

// lose notes a value that cannot be read, before anything of its revision is seen, and ends the watches of
// its resource.
func (p *Publisher) lose(ctx context.Context, r *Resource, why *store.UnreadableError) {
	key := r.KeyOf(why.Key)
	again := r.unread.get(key, 0) != nil
	r.unread.put(Unreadable{Resource: r.GR, Key: key, Known: p.latest(r, key) != nil, Why: why})
	r.Cache.Interrupt()
	if len(p.unread) == 0 {
		p.tried = time.Now()
	}
	p.unread[r] = true
	if again {
		return
	}
	p.set.logger.LogAttrs(ctx, slog.LevelError,
		"a value cannot be read: its resource is not listed and watched until it is replaced or can be read",
		slog.String("resource", r.GR.String()), slog.Any("err", why))
}

// restore notes that an object whose value could not be read has another one at rv.
func (p *Publisher) restore(r *Resource, key wire.Key, rv kube.ResourceVersion) {
	if r.unread.replaced(key, rv) {
		r.SetWholeFrom(rv) // before it is seen
	}
}

// settle makes readable what was replaced. It is called when the clock has passed that.
func (p *Publisher) settle(ctx context.Context) {
	for r := range p.unread {
		if r.Ended() {
			delete(p.unread, r)
			continue
		}
		if r.unread.settle() > 0 {
			continue
		}
		delete(p.unread, r)
		p.set.logger.LogAttrs(ctx, slog.LevelInfo, "all values of a resource can be read again",
			slog.String("resource", r.GR.String()), slog.Int64("from_rv", int64(r.WholeFrom())))
	}
}

// loaded notes which resources have values that cannot be read after they were loaded.
func (p *Publisher) loaded(ctx context.Context, resources ...*Resource) {
	if len(p.unread) == 0 {
		p.tried = time.Now()
	}
	for _, r := range resources {
		if all := r.Unreadable(); len(all) > 0 {
			p.unread[r] = true
			p.set.logger.LogAttrs(ctx, slog.LevelError,
				"values cannot be read: their resource is not listed and watched until they are replaced or can be read",
				slog.String("resource", r.GR.String()), slog.Int("objects", len(all)), slog.Any("first", all[0].Why))
		}
	}
}

// next returns the next batch. Meanwhile, and between batches, it tries to read again what could not be read.
func (p *Publisher) next(ctx context.Context) (store.Batch, error) {
	for len(p.unread) > 0 {
		left := againEvery - time.Since(p.tried)
		if left <= 0 {
			if err := p.again(ctx); err != nil {
				return store.Batch{}, err
			}
			p.tried = time.Now()
			continue
		}
		limited, cancel := context.WithTimeout(ctx, left)
		batch, err := p.feed.Next(limited)
		over := limited.Err() != nil
		cancel()
		if err == nil || !over || ctx.Err() != nil {
			return batch, err
		}
	}
	return p.feed.Next(ctx)
}

// again tries to read what could not be read.
func (p *Publisher) again(ctx context.Context) error {
	if p.hole != nil {
		return nil // the state at the clock is not the one that comes next
	}
	away := map[string]bool{}
	for r := range p.unread {
		if r.Ended() || !p.isReadable(ctx, r, away) {
			continue
		}
		if err := p.reload(ctx, r); err != nil {
			return err
		}
	}
	p.settle(ctx)
	return nil
}

// isReadable reports whether one of the next values of a resource that could not be read can be now. away are the
// encryptions whose key management service did not answer just now: it is not asked for each value, since nothing is
// published meanwhile.
func (p *Publisher) isReadable(ctx context.Context, r *Resource, away map[string]bool) bool {
	all := r.Unreadable()
	first := max(0, slices.IndexFunc(all, func(o Unreadable) bool { return o.Key.String() > r.unread.tried }))
	tried := 0
	for _, o := range slices.Concat(all[first:], all[:first]) {
		if tried == mostTried {
			break
		}
		if away[o.Why.Encryption] {
			continue
		}
		why := p.readAgain(ctx, r, o.Why.Key)
		if why == nil {
			return true // it is the first one the next time, if not all can be read now
		}
		if e, is := errors.AsType[*store.UnreadableError](why); is && e.Temporary {
			away[e.Encryption] = true
		}
		r.unread.tried = o.Key.String()
		tried++
	}
	return false
}

// errMissing is not given by stores: what cannot be read is there.
var errMissing = errors.New("the value is not there")

// readAgain returns why a value cannot be read at the clock; nil if it can be.
func (p *Publisher) readAgain(ctx context.Context, r *Resource, key string) error {
	page, err := p.of.store.Read(ctx, store.Query{Start: key, AtRevision: int64(p.of.published()), Unreadable: true})
	switch {
	case err != nil:
		return err
	case len(page.Records) != 1:
		return errMissing
	case page.Records[0].Unreadable != nil:
		return page.Records[0].Unreadable
	}
	object, err := r.Object(key, page.Records[0].Value, page.Records[0].ModRevision)
	if err == nil && r.GR == kinds.Definitions() {
		_, err = custom.Resources(object.JSON())
	}
	return err
}

// reload reads a resource at the clock, because values can be read that could not be. The store has given them no
// other revision, and one that it has not given may be that of the next write: so there are two states at the clock,
// of which readers get only the second (see Resource.State), which is also the one of servers that could always read
// them. There is no event of them: watches from before get *kube.ExpiredError.
func (p *Publisher) reload(ctx context.Context, r *Resource) error {
	now := p.of.published()
	objects, lost, err := r.LoadReadable(ctx, int64(now))
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.set.logger.LogAttrs(ctx, slog.LevelWarn, "a resource could not be read again, and will be tried",
			slog.String("resource", r.GR.String()), slog.Any("err", err))
		return nil
	}
	before, still := r.Cache.Snapshot(), map[wire.Key]bool{}
	for _, why := range lost {
		still[r.KeyOf(why.Key)] = true
	}
	// An object of which an earlier state is known keeps that while it cannot be read.
	for key := range still {
		if o, known := before.Get(key); known {
			objects = append(objects, o)
		}
	}
	was := r.Unreadable()
	r.SetWholeFrom(now) // before it is seen
	r.Cache.Load(objects, now)
	r.Cache.Forget(now)
	state := r.Cache.Snapshot()
	var entries []*watchcache.Entry
	var read []wire.Key
	for _, o := range was {
		object, found := state.Get(o.Key)
		if still[o.Key] || !found {
			continue
		}
		previous, _ := before.Get(o.Key)
		e := watchcache.NewEntry(now, object, previous)
		if r.GR == kinds.Definitions() {
			done, err := p.putInForce(ctx, r, e)
			if err != nil {
				return err
			}
			if !done {
				continue
			}
		}
		read, entries = append(read, o.Key), append(entries, e)
	}
	p.follower.Appended(r, entries) // before anybody learns that nothing is unknown
	r.unread.rereads.Add(1)         // who has a state without them, and finds them readable, finds this raised
	for _, key := range read {
		r.unread.replaced(key, now)
	}
	return nil
}
