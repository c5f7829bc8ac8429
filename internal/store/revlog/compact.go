package revlog

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// Why something was forgotten, as it is told in *store.CompactedError.
const (
	reasonAge       = "age"
	reasonBytes     = "bytes"
	reasonRequested = "requested"
)

// chunk is how many keys are changed at most while mu is held.
const chunk = 256

// Compact implements store.Store. It works without Run too.
func (l *Log) Compact(ctx context.Context, c store.Compaction) (int64, error) {
	if (c.UpTo > 0) == (c.OlderThan > 0) || c.UpTo < 0 || c.OlderThan < 0 {
		return 0, fmt.Errorf("compact %+v: %w", c, store.ErrInvalid)
	}
	release, err := l.takeCompaction(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	upTo := c.UpTo
	l.mu.Lock()
	if c.OlderThan > 0 {
		upTo = l.index.revisionAt(time.Now().Add(-c.OlderThan).UnixMilli())
		if c.NotAfter > 0 {
			upTo = min(upTo, c.NotAfter)
		}
	}
	current := l.current
	l.mu.Unlock()
	if upTo > current {
		return 0, &store.FutureRevisionError{Requested: upTo, Current: current}
	}
	done, err := l.forget(upTo, reasonRequested)
	if err != nil {
		return 0, err
	}
	return done, l.merge(ctx)
}

// takeCompaction waits until nobody else compacts. The caller calls release.
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

// forget drops from the index what was superseded or deleted at or below upTo,
// after the floors that follow from it are on disk. It returns up to where
// history is forgotten now. The caller has the compaction turn.
func (l *Log) forget(upTo int64, reason string) (int64, error) {
	l.mu.Lock()
	before := l.compacted.Revision
	if upTo <= max(before, l.base) {
		l.mu.Unlock()
		return before, nil
	}
	compacted, floors := l.floorsLocked(upTo, reason)
	l.mu.Unlock()
	err := l.switchManifest(func(m *format.Manifest) {
		m.Compacted = compacted
		maps.Copy(m.Floors, floors)
	})
	if err != nil {
		return before, fmt.Errorf("compact up to revision %d: %w", upTo, err)
	}
	l.mu.Lock()
	l.compacted = compacted
	for name, floor := range floors {
		l.index.resource(name).floor = floor
	}
	l.mu.Unlock()
	// From here on nobody can ask for what is dropped, so it may go bit by bit.
	l.drop(before, upTo)
	return upTo, nil
}

// floorsLocked returns the mark of forgetting up to upTo, and the floors that it
// raises: for each resource the last write at or below upTo that superseded or
// deleted something.
func (l *Log) floorsLocked(upTo int64, reason string) (format.Mark, map[string]format.Mark) {
	now := time.Now().UnixMilli()
	compacted := format.Mark{Revision: upTo, Millis: l.compacted.Millis, Reason: reason, Removed: now}
	floors := map[string]format.Mark{}
	for name, r := range l.index.resources {
		if older := len(r.changes) - len(r.after(upTo)); older > 0 {
			if v, ok := l.index.version(r.changes[older-1]); ok {
				compacted.Millis = max(compacted.Millis, v.millis)
			}
		}
		c, ok := r.lastSuperseding(upTo)
		if !ok || c.revision <= r.floor.Revision {
			continue
		}
		if v, ok := l.index.version(c); ok {
			floors[name] = format.Mark{Revision: c.revision, Millis: v.millis, Reason: reason, Removed: now}
		}
	}
	return compacted, floors
}

// drop removes from the index what the writes in (before, upTo] superseded.
func (l *Log) drop(before, upTo int64) {
	l.mu.Lock()
	resources := make([]*resource, 0, len(l.index.resources))
	for _, r := range l.index.resources {
		resources = append(resources, r)
	}
	l.mu.Unlock()
	for _, r := range resources {
		l.mu.Lock()
		older := r.changes[:len(r.changes)-len(r.after(upTo))]
		fresh := changesAfter(older, before)
		l.mu.Unlock()
		gone := map[int64]bool{}
		for len(fresh) > 0 {
			n := min(len(fresh), chunk)
			l.dropChunk(fresh[:n], upTo, gone)
			fresh = fresh[n:]
		}
		if len(gone) == 0 {
			continue
		}
		kept := make([]change, 0, len(older)-len(gone))
		for _, c := range older {
			if !gone[c.revision] {
				kept = append(kept, c)
			}
		}
		l.mu.Lock()
		r.changes = append(kept, r.changes[len(older):]...)
		l.mu.Unlock()
	}
}

func (l *Log) dropChunk(changes []change, upTo int64, gone map[int64]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		if !c.supersedes {
			continue
		}
		h, ok := l.index.keys.Get(c.key)
		if !ok {
			continue // an earlier change of the key dropped all of it
		}
		for _, v := range l.index.cut(h, upTo) {
			gone[v.revision] = true
			l.segments.byID[v.segment].live -= int64(v.size)
		}
	}
	l.snapshot = nil
}
