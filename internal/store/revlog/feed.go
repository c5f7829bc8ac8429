package revlog

import (
	"context"
	"io"
	"sync"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// Bounds of a batch. maxBatchBytes is of what has to be read for it. maxScan is how many
// changes a feed passes over at once of which the prefix is another one.
const (
	maxBatchChanges = 1024
	maxBatchBytes   = 4 << 20
	maxScan         = 8192
)

// feed is a cursor: the position is all it has. History and live changes come
// through the same lookup, so there is no seam between them.
type feed struct {
	log  *Log
	from store.From
	span index.Span
	done chan struct{} // closed by Close
	once sync.Once

	after     int64 // every change up to here was delivered
	compacted int64 // the mark that was delivered, with From.Hold
}

// Changes implements store.Store.
func (l *Log) Changes(ctx context.Context, f store.From) (store.Changes, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	span, err := index.SpanOf(f)
	if err != nil {
		return nil, err
	}
	if err := l.lockFor(ctx, f); err != nil {
		return nil, err
	}
	defer l.mu.Unlock()
	if err := l.checkLocked(span, f.After); err != nil {
		return nil, err
	}
	if f.UpTo != 0 && f.UpTo <= f.After {
		return &store.NoChanges{}, nil
	}
	k := &feed{log: l, from: f, after: f.After, done: make(chan struct{}), span: span}
	if f.Hold {
		l.holds[k] = f.After
	}
	return k, nil
}

// lockFor locks mu for a new feed, unless it returns an error. With Hold it first waits until a compaction is over
// that is further than the feed: it has been decided, and does not look for feeds any more.
func (l *Log) lockFor(ctx context.Context, f store.From) error {
	for {
		l.mu.Lock()
		under := l.compacting
		if !f.Hold || under == nil || f.After >= under.upTo {
			return nil
		}
		l.mu.Unlock()
		select {
		case <-under.over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// checkLocked refuses a feed that is to continue after a revision.
func (l *Log) checkLocked(s index.Span, after int64) error {
	if l.closed {
		return store.ErrClosed
	}
	return l.index.Check(s, after)
}

// Next implements store.Changes.
func (k *feed) Next(ctx context.Context) (store.Batch, error) {
	for {
		if ctx.Err() != nil {
			return store.Batch{}, context.Cause(ctx)
		}
		select {
		case <-k.done:
			return store.Batch{}, store.ErrClosed
		default:
		}
		if k.from.UpTo != 0 && k.after >= k.from.UpTo {
			return store.Batch{}, io.EOF
		}
		scoop, err := k.scoop()
		if err != nil {
			return store.Batch{}, err
		}
		if scoop.set == nil {
			select {
			case <-scoop.wake:
			case <-k.done:
			case <-ctx.Done():
			case <-k.log.closing:
				return store.Batch{}, store.ErrClosed
			}
			continue
		}
		changes, err := k.read(ctx, scoop)
		scoop.set.release(k.log)
		if err != nil {
			return store.Batch{}, err
		}
		return k.deliver(changes, scoop), nil
	}
}

// deliver returns the batch and moves the feed past it.
func (k *feed) deliver(changes []store.Change, s scooped) store.Batch {
	k.after = s.through
	b := store.Batch{Changes: changes, Through: s.through}
	if k.from.Hold {
		k.compacted, b.Compacted = s.compacted, s.compacted
		k.log.mu.Lock()
		defer k.log.mu.Unlock()
		if _, open := k.log.holds[k]; open {
			k.log.holds[k] = k.after
		}
	}
	return b
}

// Close implements store.Changes.
func (k *feed) Close() error {
	k.once.Do(func() {
		close(k.done)
		k.log.mu.Lock()
		defer k.log.mu.Unlock()
		delete(k.log.holds, k)
	})
	return nil
}

// heldLocked bounds a compaction by what every feed with Hold has delivered.
func (l *Log) heldLocked(upTo int64) int64 {
	for _, delivered := range l.holds {
		upTo = min(upTo, delivered)
	}
	return upTo
}
