package revlog

import (
	"context"
	"fmt"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// syncAfter is how long after a write with Options.Early the disk is asked to keep it, with what was written
// meanwhile. A sync for each group would cost the processor more than the group does, and the store that the log
// is a copy of syncs to the same disk, maybe.
const syncAfter = 100 * time.Millisecond

// extent is how far a segment reaches.
type extent struct {
	end, last int64
	chain     uint32
}

func (s *segment) extent() extent { return extent{end: s.end, last: s.last, chain: s.chain} }

// writtenLocked notes that the active segment is about to get longer. mu is held.
func (l *Log) writtenLocked() {
	if !l.opts.Early {
		return
	}
	if l.active.onDisk == nil {
		before := l.active.extent()
		l.active.onDisk = &before
	}
	l.behind = l.active
	select {
	case l.unsynced <- struct{}{}:
	default: // it is known
	}
}

// syncEarly makes what is written durable, a moment later, until ctx ends.
func (l *Log) syncEarly(ctx context.Context) {
	for {
		select {
		case <-l.unsynced:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(syncAfter):
		case <-ctx.Done():
			return
		}
		_ = l.syncWritten() // it is poison, for later writes
	}
}

// syncWritten makes durable what is visible now. Writes go on meanwhile. Errors: *store.PoisonedError, store.ErrClosed.
func (l *Log) syncWritten() error {
	l.syncTurn <- struct{}{}
	defer func() { <-l.syncTurn }()
	return l.syncInTurn()
}

// syncInTurn is syncWritten; the caller has syncTurn: of several syncs that wait for the same pages, the kernel tells one
// alone that they were not written.
func (l *Log) syncInTurn() error {
	l.mu.Lock()
	if l.closed || l.poison != nil || l.durable >= l.current {
		defer l.mu.Unlock()
		if l.closed {
			return store.ErrClosed
		}
		return l.poison
	}
	seg, upTo, set := l.behind, l.behind.extent(), l.segments.hold()
	l.mu.Unlock()
	defer set.release(l)
	l.syncing.Store(max(1, int64(time.Since(l.opened))))
	err := l.syncs.sync(seg.file)
	l.syncing.Store(0)
	if err != nil {
		return l.setPoison(fmt.Errorf("sync %s: %w", seg.name, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if upTo.last <= l.durable { // another sync has come before
		return l.poison
	}
	l.durable = upTo.last
	if seg.onDisk = &upTo; upTo.end == seg.end {
		seg.onDisk = nil
	}
	return l.poison
}

// Sync waits until what is visible is on disk, which it always is without Options.Early. Errors: those of Commit.
func (l *Log) Sync(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.syncTurn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.syncTurn }()
	return l.syncInTurn()
}
