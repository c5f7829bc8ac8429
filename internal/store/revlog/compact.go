package revlog

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// The reasons for which history was removed, in *store.CompactedError.
const (
	reasonAge       = "age"
	reasonBytes     = "bytes"
	reasonRequested = "requested"
)

const (
	// chunk is how many keys are changed at most while mu is held, and walk how many
	// are looked at.
	chunk    = 64
	walkKeys = 512
)

// pause lets writers go first; see pacer. The caller has the compaction turn.
func (l *Log) pause(began time.Time) { l.pacer.pause(began, l.head, l.closing) }

// Compact implements store.Store. It works without Run too.
func (l *Log) Compact(ctx context.Context, c store.Compaction) (int64, error) {
	if (c.UpTo > 0) == (c.OlderThan > 0) || c.UpTo < 0 || c.OlderThan < 0 {
		return 0, fmt.Errorf("compact %+v: %w", c, store.ErrInvalid)
	}
	if c.Purge {
		if err := l.betweenGroups(ctx, l.sealActive); err != nil {
			return 0, fmt.Errorf("seal the segment that is written: %w", err)
		}
	} else if err := l.Sync(ctx); err != nil {
		return 0, err
	}
	release, err := l.takeCompaction(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	upTo := c.UpTo
	l.mu.Lock()
	if c.OlderThan > 0 {
		upTo = l.revisionAtLocked(time.Now().Add(-c.OlderThan).UnixMilli())
	}
	current := l.current
	l.mu.Unlock()
	if upTo > current {
		return 0, &store.FutureRevisionError{Requested: upTo, Current: current}
	}
	done, err := l.compact(target{upTo: upTo, reason: reasonRequested, every: c.Every})
	if err != nil {
		return 0, err
	}
	if c.Purge {
		return done, l.merge(ctx, 0)
	}
	return done, l.merge(ctx, usualDead)
}

// task is something that the sequencer does while nothing is written.
type task struct {
	do   func() error
	done chan error
}

// betweenGroups asks the sequencer to do something, such as to begin a new segment, so that
// the one that is written can be merged. Before Run it waits for Run.
func (l *Log) betweenGroups(ctx context.Context, do func() error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := task{do: do, done: make(chan error, 1)}
	select {
	case l.between <- t:
		return <-t.done // the sequencer answers what it has taken
	case <-l.stopped:
		return l.stoppedError()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeCompaction waits until no other compaction runs. The caller calls release.
func (l *Log) takeCompaction(ctx context.Context) (release func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case l.compactTurn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-l.closing:
		return nil, store.ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		err = store.ErrClosed
	default:
		err = l.poison
	}
	if err != nil {
		<-l.compactTurn
		return nil, err
	}
	return func() { <-l.compactTurn }, nil
}

// target says how far history is compacted, and why.
type target struct {
	upTo   int64
	reason string
	every  bool // as store.Compaction.Every
}

// decided is a compaction that has looked at what feeds with From.Hold have delivered.
type decided struct {
	upTo int64
	over chan struct{} // closed when it is in the manifest, or has failed
}

// compact drops from the index what was superseded or deleted at or below upTo,
// after the floors that follow from it are on disk. It returns up to where
// history is compacted now. The caller has the compaction turn.
func (l *Log) compact(to target) (int64, error) {
	l.mu.Lock()
	before := l.compacted.Revision
	upTo := min(l.heldLocked(to.upTo), l.durable)
	if upTo < before || upTo <= l.base || upTo == before && !to.every {
		l.mu.Unlock()
		return before, nil
	}
	compacted, floors := l.floorsLocked(upTo, to.reason)
	gone, rest := l.index.SpareFloors()
	if to.every {
		rest, gone = compacted, l.raiseLocked(floors, compacted)
	}
	under := &decided{upTo: upTo, over: make(chan struct{})}
	l.compacting = under
	l.mu.Unlock()
	err := l.switchManifest(func(m *format.Manifest) {
		m.Compacted, m.Rest = compacted, rest
		maps.Copy(m.Floors, floors)
		for _, name := range gone {
			delete(m.Floors, name)
		}
	}, func() {
		l.compacted, l.index.Rest = compacted, rest
		l.compactions++
		l.forgetSetbacksLocked()
		for _, name := range gone {
			delete(l.index.Resources, name)
		}
		for name, floor := range floors {
			l.index.Resource(name).Floor = floor
		}
		l.wakeLocked() // feeds with Hold tell their reader
	})
	l.mu.Lock()
	l.compacting = nil
	l.mu.Unlock()
	close(under.over)
	if err != nil {
		return before, fmt.Errorf("compact up to revision %d: %w", upTo, err)
	}
	// From here on no read can reach the dropped versions, so they may go step by step.
	l.drop(before, upTo)
	return upTo, nil
}

// floorsLocked returns the mark of compaction up to upTo, and the floors that it
// raises: for each resource the last write at or below upTo that superseded or
// deleted something.
func (l *Log) floorsLocked(upTo int64, reason string) (format.Mark, map[string]format.Mark) {
	now := time.Now().UnixMilli()
	compacted := format.Mark{Revision: upTo, Millis: l.compacted.Millis, Reason: reason, Removed: now}
	floors := map[string]format.Mark{}
	for name, r := range l.index.Resources {
		if older := len(r.Changes) - len(r.After(upTo)); older > 0 {
			if v, ok := l.index.Version(r.Changes[older-1]); ok {
				compacted.Millis = max(compacted.Millis, v.Millis)
			}
		}
		c, ok := r.LastSuperseding(upTo)
		if !ok || c.Revision <= r.Floor.Revision {
			continue
		}
		if v, ok := l.index.Version(c); ok {
			floors[name] = format.Mark{Revision: c.Revision, Millis: v.Millis, Reason: reason, Removed: now}
		}
	}
	return compacted, floors
}

// raiseLocked raises the floors of all resources to a mark. It returns those of which no
// record is left, which have the floor of the rest then.
func (l *Log) raiseLocked(floors map[string]format.Mark, to format.Mark) (gone []string) {
	for name, r := range l.index.Resources {
		if len(r.Changes) == 0 {
			gone = append(gone, name)
		} else {
			floors[name] = to
		}
	}
	return gone
}

// drop removes from the index what the writes in (before, upTo] superseded.
func (l *Log) drop(before, upTo int64) {
	l.mu.Lock()
	resources := make([]*index.Resource, 0, len(l.index.Resources))
	for _, r := range l.index.Resources {
		resources = append(resources, r)
	}
	l.mu.Unlock()
	for _, r := range resources {
		l.mu.Lock()
		changes := r.Changes // it is only appended to: no other compaction runs
		l.mu.Unlock()
		older := changes[:len(changes)-len(index.ChangesAfter(changes, upTo))]
		keys := index.Superseded(index.ChangesAfter(older, before))
		gone := map[int64]bool{}
		for len(keys) > 0 {
			began := time.Now()
			n := min(len(keys), chunk)
			l.dropChunk(keys[:n], upTo, gone)
			keys = keys[n:]
			l.pause(began)
		}
		if len(gone) == 0 {
			continue
		}
		kept := make([]index.Change, 0, len(changes)-len(gone))
		for _, c := range changes {
			if !gone[c.Revision] {
				kept = append(kept, c)
			}
		}
		l.mu.Lock()
		r.Changes = append(kept, r.Changes[len(changes):]...)
		l.mu.Unlock()
	}
}

func (l *Log) dropChunk(keys []string, upTo int64, gone map[int64]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		h, ok := l.index.Keys.Get(key)
		if !ok {
			continue // it is gone already
		}
		for _, v := range l.index.Cut(h, upTo) {
			gone[v.Revision] = true
			l.segments.byID[v.Segment].live -= int64(v.Size)
			l.index.Resource(store.ResourceOf(key)).Retained -= int64(v.Size)
		}
	}
	l.snapshot = nil
}
