package revlog

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// maxGroupRequests bounds a group, which is written and synced at once, beside
// format.MaxGroupBytes.
const maxGroupRequests = 1024

// sequence is the sequencer: the only goroutine that gives out revisions and
// writes records. It takes every request that waits, writes them as one frame,
// and answers after they are durable and visible.
func (l *Log) sequence(ctx context.Context) {
	var requests []*request
	for {
		requests = requests[:0]
		select {
		case <-ctx.Done():
			return
		case <-l.closing:
			return
		case r := <-l.requests:
			requests = append(requests, r)
		}
		bytes := len(requests[0].encoded)
	fill:
		for len(requests) < maxGroupRequests && bytes < format.MaxGroupBytes {
			select {
			case r := <-l.requests:
				requests = append(requests, r)
				bytes += len(r.encoded)
			default:
				break fill
			}
		}
		l.commitGroup(requests)
		clear(requests)
	}
}

// pending is a write of the group that is under way.
type pending struct {
	request  *request
	version  version
	previous int64 // revision it supersedes, 0 if none
	value    []byte
}

// group is what the sequencer decided about some requests.
type group struct {
	writes    []pending
	conflicts []pending // version is what the condition met; zero if nothing
	bytes     int       // of the records of writes
}

func (l *Log) commitGroup(requests []*request) {
	g, err := l.decide(requests)
	if err == nil && len(g.writes) > 0 {
		if err = l.writeGroup(&g); err == nil {
			l.publish(&g)
		}
	}
	for _, p := range g.writes {
		p.request.done <- outcome{revision: p.version.revision, err: err}
	}
	for _, p := range g.conflicts {
		out := outcome{conflict: true, found: p.version, exists: p.version.revision != 0}
		if err != nil { // what it met may never have come to be
			out = outcome{err: err}
		}
		p.request.done <- out
	}
}

// decide evaluates the conditions, each as if the writes before it had happened.
func (l *Log) decide(requests []*request) (group, error) {
	g := group{writes: make([]pending, 0, len(requests))}
	millis := max(time.Now().UnixMilli(), l.lastMillis)
	var overlay map[string]version
	if len(requests) > 1 {
		overlay = make(map[string]version, len(requests))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	revision := l.current
	for _, r := range requests {
		found, pended := overlay[r.key]
		exists := pended && !found.deleted
		if !pended {
			found, exists = l.index.latest(r.key)
		}
		if !exists {
			found = version{}
		}
		if found.revision != r.expected || r.remove && !exists {
			g.conflicts = append(g.conflicts, pending{request: r, version: found})
			continue
		}
		revision++
		v := version{revision: revision, create: revision, millis: millis, size: uint32(len(r.encoded)), deleted: r.remove}
		switch {
		case r.remove:
			v.create = 0
		case exists:
			v.create = found.create
		}
		g.writes = append(g.writes, pending{request: r, version: v, previous: found.revision})
		g.bytes += len(r.encoded)
		if overlay != nil {
			overlay[r.key] = v
		}
	}
	return g, l.poison
}

// writeGroup makes the group durable. An error other than *store.NoSpaceError
// means that no write will be taken any more.
func (l *Log) writeGroup(g *group) error {
	if err := l.makeRoom(format.FrameSize(g.bytes)); err != nil {
		return err
	}
	seg := l.active
	b := make([]byte, format.FrameHeaderBytes, format.FrameSize(g.bytes))
	for i := range g.writes {
		p := &g.writes[i]
		at := len(b)
		b = append(b, p.request.encoded...)
		p.version.segment, p.version.offset = seg.id, uint32(seg.end+int64(at))
		format.StampRecord(b[at:], p.version.stamp(p.previous))
		format.SealRecord(b[at:], seg.seed)
		valueAt := at + format.RecordHeaderBytes + len(p.request.key)
		valueEnd := valueAt + p.request.valueLen
		p.value = b[valueAt:valueEnd:valueEnd]
	}
	b, f := format.SealFrame(b, format.Frame{Count: len(g.writes), First: g.writes[0].version.revision, Chain: seg.chain}, seg.seed, seg.end)
	_, err := seg.file.WriteAt(b, seg.end)
	if err == nil {
		err = seg.file.Sync()
	}
	if err != nil {
		// The pages may be marked clean although they are not on disk: a second
		// sync would lie. Nothing after this can be trusted.
		return l.setPoison(err)
	}
	l.mu.Lock()
	seg.end += f.Size()
	seg.chain = f.Payload
	seg.last = g.writes[len(g.writes)-1].version.revision
	l.mu.Unlock()
	return nil
}

// publish makes a durable group visible and wakes who waits for it.
func (l *Log) publish(g *group) {
	l.lastMillis = g.writes[0].version.millis
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range g.writes {
		assertf(p.version.revision == l.current+1, "revision %d follows %d", p.version.revision, l.current)
		l.current = p.version.revision
		l.index.add(p.request.key, p.version, p.previous != 0)
		l.values.add(p.version.revision, p.value)
		l.active.live += int64(p.version.size)
	}
	l.snapshot = nil
	close(l.wake)
	l.wake = make(chan struct{})
}

// makeRoom sees to it that the active segment has need bytes left.
func (l *Log) makeRoom(need int64) error {
	if l.active.end+need <= l.active.capacity {
		return nil
	}
	if l.active.end > format.SegmentHeaderBytes {
		return l.roll(need)
	}
	// Nothing is in it yet, so its successor would have the same name.
	capacity := format.SegmentHeaderBytes + need
	if err := l.active.file.Allocate(capacity); err != nil {
		return l.roomError(err)
	}
	l.mu.Lock()
	l.active.capacity = capacity
	l.mu.Unlock()
	return nil
}

func (l *Log) roomError(err error) error {
	if disk.IsNoSpace(err) {
		return &store.NoSpaceError{Cause: err}
	}
	return l.setPoison(err)
}

// roll seals the active segment and starts the next one. When there is no space
// for it, nothing has changed.
func (l *Log) roll(need int64) error {
	l.mu.Lock()
	entry := format.SegmentEntry{ID: l.nextSegment, Kind: format.KindLog, First: l.current + 1, Last: l.current}
	l.nextSegment++
	l.mu.Unlock()
	old := l.active
	next, err := l.createSegment(entry, max(l.opts.SegmentBytes, format.SegmentHeaderBytes+need), old.chain)
	if err != nil {
		return l.roomError(err)
	}
	err = l.switchManifest(func(m *format.Manifest) {
		last := &m.Segments[len(m.Segments)-1]
		last.Sealed, last.Size = true, 0
		m.Segments = append(m.Segments, next.entry())
	})
	if err != nil {
		_, poisoned := errors.AsType[*store.PoisonedError](err)
		if err = errors.Join(err, next.file.Close()); poisoned || !disk.IsNoSpace(err) {
			return l.setPoison(err)
		}
		return l.roomError(errors.Join(err, l.fs.Remove(next.name)))
	}
	l.mu.Lock()
	old.sealed = true
	set := l.replaceSegmentsLocked(append(slices.Clone(l.segments.ordered), next))
	l.mu.Unlock()
	set.release(l)
	l.active = next
	if err := old.file.Allocate(old.end); err != nil { // gives back what was reserved and not used
		l.logger.Warn("trim a sealed segment", slog.Any("error", err))
	}
	select {
	case l.rolled <- struct{}{}:
	default: // the keeper has not taken the last token yet; one is enough
	}
	return nil
}
