package revlog

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

// maxGroupRequests bounds a group, which is written and synced at once, beside
// format.MaxGroupBytes.
const maxGroupRequests = 1024

// retryEvery is how often the log retries what a refused write needed.
const retryEvery = 500 * time.Millisecond

// sequence is the sequencer: the only goroutine that assigns revisions and
// writes records. It takes every request that waits, writes them as one frame,
// and answers after they are durable (see Options.Early) and visible.
func (l *Log) sequence(ctx context.Context) {
	var requests []*request
	// retry is there only while writes are refused: a timer costs something at each turn. It
	// outlasts a turn, so that small writes that still have room do not put it off.
	var retry <-chan time.Time
	for {
		switch {
		case !l.retrying:
			retry = nil
		case retry == nil:
			retry = time.After(retryEvery)
		}
		requests = requests[:0]
		select {
		case <-ctx.Done():
			return
		case <-l.closing:
			return
		case <-retry:
			retry = nil
			l.begin()
			l.retryRefused()
		case t := <-l.between:
			l.begin()
			t.done <- t.do()
		case r := <-l.requests:
			runtime.Gosched() // other writers that can run join the group: a sync costs as much for one as for all
			requests = l.gather(requests, r)
			l.begin()
			l.commitGroup(requests)
			clear(requests)
		}
		l.busy.Store(0)
	}
}

// sealActive begins a new segment if there is a record in the active one.
func (l *Log) sealActive() error {
	if err := l.Durable(); err != nil {
		return err
	}
	if l.active.end == format.SegmentHeaderBytes {
		return nil
	}
	if err := l.clearTail(); err != nil {
		return err
	}
	return l.roll(0)
}

// gather adds the first request and those that wait, each with what is bound to it.
func (l *Log) gather(requests []*request, first *request) []*request {
	bytes := 0
	for r := first; ; {
		for ; r != nil; r = r.next {
			requests = append(requests, r)
			bytes += len(r.encoded)
		}
		if len(requests) >= l.opts.GroupWrites || bytes >= format.MaxGroupBytes {
			return requests
		}
		select {
		case r = <-l.requests:
		default:
			return requests
		}
	}
}

// retryRefused retries what a refused write needed.
func (l *Log) retryRefused() {
	if err := l.makeRoom(max(l.lacking, 1)); err == nil {
		l.lacking = 0
		l.setAvailable()
	}
}

// pending is a write of the group that is in progress.
type pending struct {
	request  *request
	version  index.Version
	previous index.Version // what it supersedes; zero if nothing
	value    []byte
}

// group is what the sequencer decided about some requests.
type group struct {
	writes    []pending
	conflicts []pending // version is what the condition met; zero if nothing
	bytes     int       // of the records of writes
}

func (l *Log) commitGroup(requests []*request) {
	requests = refuseLater(requests)
	g, err := l.decide(requests)
	if err == nil && len(g.writes) > 0 {
		if err = l.writeGroup(&g); err == nil {
			l.publish(&g)
		}
	}
	if err != nil {
		for _, r := range requests {
			if r.call != nil {
				r.call.failed = err
			}
		}
	}
	for _, p := range g.writes {
		p.request.done <- outcome{revision: p.version.Revision, err: err}
	}
	for _, p := range g.conflicts {
		out := outcome{conflict: true, found: p.version}
		if err != nil { // what it met may never have come to be
			out = outcome{err: err}
		}
		p.request.done <- out
	}
}

// refuseLater answers the requests of an Append of which an earlier write failed, and returns
// the others: a later write may have room where an earlier one had none, but they are in order.
func refuseLater(requests []*request) []*request {
	return slices.DeleteFunc(requests, func(r *request) bool {
		refused := r.call != nil && r.call.failed != nil
		if refused {
			r.done <- outcome{err: r.call.failed}
		}
		return refused
	})
}

// decide evaluates the conditions, each as if the writes before it had happened.
func (l *Log) decide(requests []*request) (group, error) {
	g := group{writes: make([]pending, 0, len(requests))}
	millis := time.Now().UnixMilli()
	if behind := l.lastMillis - millis; behind > 0 && behind <= clockTolerance.Milliseconds() {
		millis = l.lastMillis
	}
	var overlay map[string]index.Version
	if len(requests) > 1 {
		overlay = make(map[string]index.Version, len(requests))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	revision := l.current
	for _, r := range requests {
		found, pended := overlay[r.key]
		exists := pended && !found.Deleted
		if !pended {
			found, exists = l.index.Latest(r.key)
		}
		if !exists {
			found = index.Version{}
		}
		if found.Revision != r.expected && !r.always || r.remove && !exists {
			g.conflicts = append(g.conflicts, pending{request: r, version: found})
			continue
		}
		revision++
		v := index.Version{Revision: revision, Create: revision, Millis: millis, Size: uint32(len(r.encoded)), Deleted: r.remove}
		switch {
		case r.remove:
			v.Create = 0
		case exists:
			v.Create = found.Create
		}
		g.writes = append(g.writes, pending{request: r, version: v, previous: found})
		g.bytes += len(r.encoded)
		if overlay != nil {
			overlay[r.key] = v
		}
	}
	if revision > format.MaxRevision {
		return g, fmt.Errorf("revision %d is above the last one that can be given out: %w", revision, store.ErrInvalid)
	}
	return g, l.poison
}

// writeGroup makes the group durable; with Options.Early it is soon. After *store.UnavailableError nothing of it
// is there and a later group may succeed, after store.ErrOutcomeUnknown a later
// start may find it; after *store.PoisonedError too, and no group succeeds.
func (l *Log) writeGroup(g *group) error {
	if err := l.makeRoom(format.FrameSize(g.bytes)); err != nil {
		l.refuse(len(g.writes))
		return err
	}
	seg := l.active
	b := make([]byte, format.FrameHeaderBytes, format.FrameSize(g.bytes))
	for i := range g.writes {
		p := &g.writes[i]
		at := len(b)
		b = append(b, p.request.encoded...)
		p.version.Segment, p.version.Offset = seg.id, uint32(seg.end+int64(at))
		format.StampRecord(b[at:], p.version.Stamp(p.previous.Revision))
		format.SealRecord(b[at:], seg.seed)
		valueAt := at + format.RecordHeaderBytes + len(p.request.key)
		valueEnd := valueAt + p.request.valueLen
		p.value = b[valueAt:valueEnd:valueEnd]
	}
	b, f := format.SealFrame(b, format.Frame{Count: len(g.writes), First: g.writes[0].version.Revision, Chain: seg.chain},
		seg.seed, seg.end)
	if _, err := seg.file.WriteAt(b, seg.end); err != nil {
		return l.undo(len(g.writes), fmt.Errorf("write %s: %w", seg.name, err))
	}
	if !l.opts.Early {
		if err := l.syncs.sync(seg.file); err != nil {
			return l.setPoison(fmt.Errorf("sync %s: %w", seg.name, err))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writtenLocked()
	l.groups++
	seg.end += f.Size()
	seg.chain = f.Payload
	seg.last = g.writes[len(g.writes)-1].version.Revision
	if !l.opts.Early {
		l.durable = seg.last
	}
	return nil
}

// undo removes what is there of a group of n writes that could not be written
// whole, and returns their error: *store.UnavailableError if it is gone.
func (l *Log) undo(n int, cause error) error {
	l.refuse(n)
	l.dirtyTail, l.lacking = true, max(l.lacking, 1)
	if err := l.clearTail(); err != nil {
		err = l.setUnavailable(errors.Join(cause, err))
		if _, poisoned := errors.AsType[*store.PoisonedError](err); poisoned {
			return err
		}
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, cause)
	}
	return l.setUnavailable(cause)
}

func (l *Log) refuse(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused += int64(n)
}

// publish makes a group visible and wakes the feeds.
func (l *Log) publish(g *group) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteTime(g.writes[0].version.Revision, g.writes[0].version.Millis)
	for _, p := range g.writes {
		assertf(p.version.Revision == l.current+1, "revision %d follows %d", p.version.Revision, l.current)
		l.current = p.version.Revision
		l.index.Add(p.request.key, p.version, p.previous)
		l.values.Add(p.version.Revision, p.value)
		l.active.live += int64(p.version.Size)
		frees := p.version.Frees(p.previous)
		l.active.frees += frees
		l.growth.grown += frees
	}
	l.snapshot = nil
	l.wakeLocked()
}

// wakeLocked wakes every feed that waits.
func (l *Log) wakeLocked() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// makeRoom makes the active segment have need bytes of space left and nothing
// after its end. While it cannot, writes are unavailable.
func (l *Log) makeRoom(need int64) error {
	if err := l.usable(); err != nil {
		return l.setUnavailable(err)
	}
	if !l.dirtyTail && l.active.end+need <= l.active.capacity {
		return nil
	}
	err := l.clearTail()
	switch {
	case err != nil:
	case l.active.end+need <= l.active.capacity:
	case l.active.end > format.SegmentHeaderBytes:
		err = l.roll(need)
	default:
		err = l.grow(need)
	}
	if err != nil {
		l.lacking = max(l.lacking, need)
		return l.setUnavailable(err)
	}
	if need >= l.lacking {
		l.lacking = 0
		l.setAvailable()
	}
	return nil
}

// clearTail removes what a write left that failed.
func (l *Log) clearTail() error {
	if !l.dirtyTail {
		return nil
	}
	err := l.resetTail(nil, format.MaxFrameBytes)
	l.dirtyTail = err != nil
	return err
}

// grow makes room in a segment that has nothing in it yet: its successor would
// have the same name. The size is durable before anything is written there: a frame
// that reaches over the end of its file is damage.
func (l *Log) grow(need int64) error {
	capacity := format.SegmentHeaderBytes + need
	if err := l.active.file.Allocate(capacity); err != nil {
		return fmt.Errorf("extend %s: %w", l.active.name, err)
	}
	if err := l.active.file.Sync(); err != nil {
		return l.setPoison(fmt.Errorf("sync the size of %s: %w", l.active.name, err))
	}
	l.mu.Lock()
	l.active.capacity = capacity
	l.mu.Unlock()
	return nil
}

// roll seals the active segment, all of which is on disk then, and starts the next one. Unless it returns
// *store.PoisonedError, an error means that nothing has changed.
func (l *Log) roll(need int64) error {
	if err := l.syncWritten(); err != nil {
		return err
	}
	l.mu.Lock()
	entry := format.SegmentEntry{ID: l.nextSegment, Kind: format.KindLog, First: l.current + 1, Last: l.current}
	l.nextSegment++
	l.mu.Unlock()
	old := l.active
	next, err := l.createSegment(entry, max(l.opts.SegmentBytes, format.SegmentHeaderBytes+need), old.chain)
	if err != nil {
		return err
	}
	var before *segmentSet
	err = l.switchManifest(func(m *format.Manifest) {
		last := &m.Segments[len(m.Segments)-1]
		last.Sealed, last.Size = true, 0
		m.Segments = append(m.Segments, next.entry())
	}, func() {
		old.sealed = true
		l.listed = append(slices.Clone(l.listed), next)
		before = l.openLocked(append(slices.Clone(l.segments.ordered), next))
	})
	if err != nil {
		err = errors.Join(err, next.file.Close())
		if _, poisoned := errors.AsType[*store.PoisonedError](err); poisoned {
			return err // the next start knows whether the file is needed
		}
		return errors.Join(err, l.fs.Remove(next.name))
	}
	before.release(l)
	l.active = next
	if err := old.file.Allocate(old.end); err != nil { // releases what was reserved and not used
		l.maintenanceFailed("trim a sealed segment", err)
	}
	select {
	case l.rolled <- struct{}{}:
	default: // the receiver has not taken the last token yet; one is enough
	}
	return nil
}
