package caches

import (
	"context"
	"errors"
	"log/slog"
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
	// mostTried bounds how many values of a resource are tried then. If one can be read, all are.
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

// isReadable reports whether one of some values of a resource that could not be read can be now. away are the
// encryptions whose key management service did not answer just now: it is not asked for each value, since nothing is
// published meanwhile.
func (p *Publisher) isReadable(ctx context.Context, r *Resource, away map[string]bool) bool {
	tried := 0
	for _, o := range r.Unreadable() {
		if tried == mostTried {
			break
		}
		if away[o.Why.Encryption] {
			continue
		}
		tried++
		page, err := p.of.store.Read(ctx, store.Query{Start: o.Why.Key, AtRevision: int64(p.of.published()), Unreadable: true})
		if err != nil || len(page.Records) != 1 {
			continue
		}
		if why := page.Records[0].Unreadable; why != nil {
			if why.Temporary {
				away[why.Encryption] = true
			}
			continue
		}
		object, err := r.Object(o.Why.Key, page.Records[0].Value, page.Records[0].ModRevision)
		if err == nil && r.GR == kinds.Definitions() {
			_, err = custom.Resources(object.JSON())
		}
		if err == nil {
			return true
		}
	}
	return false
}

// reload reads a resource at the clock, because values can be read that could not be.
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
		r.unread.replaced(o.Key, now)
		entries = append(entries, e)
	}
	p.follower.Appended(r, entries)
	return nil
}
