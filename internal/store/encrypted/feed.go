package encrypted

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// retryEvery is how often a feed that cannot begin again tries to decrypt a value while the
// key management service does not answer.
const retryEvery = time.Second

// feed decrypts the changes of the feed below.
type feed struct {
	store.Changes

	store *Store
	after int64 // every change up to here was delivered
	hold  bool
	// pending is a batch that could not be decrypted, nil if there is none; the changes before
	// next are decrypted.
	pending *store.Batch
	next    int
}

// Changes implements store.Store. A feed with Hold waits while a key management service does
// not answer; any other returns *store.UnreadableError, and can be read again.
func (s *Store) Changes(ctx context.Context, from store.From) (store.Changes, error) {
	below, err := s.Store.Changes(ctx, from)
	if err != nil {
		return nil, err
	}
	return &feed{Changes: below, store: s, hold: from.Hold, after: from.After}, nil
}

// Next implements store.Changes.
func (f *feed) Next(ctx context.Context) (store.Batch, error) {
	if f.pending == nil {
		b, err := f.Changes.Next(ctx)
		if err != nil {
			return b, err
		}
		f.pending, f.next = &b, 0
	}
	for {
		err := f.decrypt(ctx)
		if err == nil {
			b := *f.pending
			f.pending, f.after = nil, b.Through
			return b, nil
		}
		e, is := errors.AsType[*store.UnreadableError](err)
		if !f.hold {
			return store.Batch{}, f.store.gone(ctx, err, f.after)
		}
		if !is || !e.Temporary {
			return store.Batch{}, err
		}
		f.store.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "changes wait for a key management service", slog.Any("error", err))
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return store.Batch{}, context.Cause(ctx)
		}
	}
}

// decrypt decrypts the pending changes in place, each wholly or not at all.
func (f *feed) decrypt(ctx context.Context) error {
	g := f.store.current.Load()
	for ; f.next < len(f.pending.Changes); f.next++ {
		c := &f.pending.Changes[f.next]
		was := c.Previous
		if was != nil && !g.plain(c.Key, was.Value) {
			r := *was
			v, err := f.store.decrypt(ctx, g, r)
			if err != nil {
				return err
			}
			r.Value, was = v, &r
		}
		if !g.plain(c.Key, c.Value) {
			v, err := f.store.decrypt(ctx, g, store.Record{Key: c.Key, Value: c.Value, ModRevision: c.Revision})
			if err != nil {
				return err
			}
			c.Value = v
		}
		c.Previous = was
	}
	return nil
}
