package caches

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/gapless-io/gapless/internal/watchcache"
)

// Publishers are the publishers of all stores of a set.
type Publishers []*Publisher

// Close closes their feeds.
func (all Publishers) Close() error {
	var errs []error
	for _, p := range all {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// Run publishes until ctx ends, whose cause it returns, or until one of them cannot go on: then nothing
// that is written becomes visible any more. It tells follower what they do.
func (all Publishers) Run(ctx context.Context, follower Follower) error {
	if len(all) == 1 {
		all[0].follower = follower
		return all[0].run(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	turns := &inTurn{of: follower}
	var wg sync.WaitGroup
	for _, p := range all {
		p.follower = turns
		wg.Go(func() { end(p.run(ctx)) }) // the first one that fails ends the others
	}
	wg.Wait()
	return context.Cause(ctx)
}

// inTurn is a follower that hears of one thing at a time.
type inTurn struct {
	mu sync.Mutex
	of Follower
}

var _ Follower = (*inTurn)(nil)

// Loaded implements Follower.
func (t *inTurn) Loaded(r *Resource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of.Loaded(r)
}

// Appended implements Follower.
func (t *inTurn) Appended(r *Resource, entries []*watchcache.Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of.Appended(r, entries)
}

// Defined implements Follower.
func (t *inTurn) Defined(created, ended *Resource) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of.Defined(created, ended)
}

// loadLate reads a store that could not be read when the set was loaded.
func (p *Publisher) loadLate(ctx context.Context) error {
	read, err := p.of.load(ctx, true)
	if err != nil {
		return err
	}
	p.feed, p.pending, p.unread, p.tried = read.feed, read.pending, read.unread, read.tried
	for _, r := range slices.Collect(p.of.resources) {
		p.follower.Loaded(r)
	}
	p.of.unread.Store(nil)
	p.set.logger.LogAttrs(ctx, slog.LevelInfo, "resources are served whose store could not be read before",
		slog.String("resources", p.of.String()))
	return nil
}
