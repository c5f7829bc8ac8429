package revlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// mergeFrameBytes is the size of a base segment's frames.
const mergeFrameBytes = 1 << 20

// merge gives disk space back: when at least half of the bytes in the segments
// that lie wholly in forgotten history are dead, it copies the others to new
// base segments and removes the old files.
//
// It always takes all of those segments. A deletion hides the older records of
// its key, so it may be left out only when none of them stays behind.
func (l *Log) merge(ctx context.Context) error {
	sources := l.mergeable()
	if len(sources) == 0 {
		return nil
	}
	m := merger{log: l, moved: map[int64]version{}}
	err := m.copyAll(ctx, sources)
	if err == nil {
		err = m.finish()
	}
	if err == nil {
		err = l.switchManifest(func(man *format.Manifest) {
			man.Segments = slices.DeleteFunc(man.Segments, func(e format.SegmentEntry) bool {
				return slices.ContainsFunc(sources, func(s *segment) bool { return s.id == e.ID })
			})
			entries := make([]format.SegmentEntry, 0, len(m.made)+len(man.Segments))
			for _, s := range m.made {
				entries = append(entries, s.entry())
			}
			man.Segments = append(entries, man.Segments...)
		})
	}
	if err != nil {
		return m.abandon(err)
	}
	l.adopt(sources, m.made, m.moved)
	return nil
}

// mergeable returns the segments to merge, none if it is not worth it.
func (l *Log) mergeable() []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sources []*segment
	var bytes, live, all int64
	for _, s := range l.segments.ordered {
		all += s.end
		if s.sealed && s.last <= l.compacted.Revision {
			sources = append(sources, s)
			bytes += s.end - format.SegmentHeaderBytes
			live += s.live
		}
	}
	dead := bytes - live
	tight := l.opts.HistoryBytes > 0 && all > l.opts.HistoryBytes && dead*10 >= bytes
	if dead*2 < bytes && !tight {
		return nil
	}
	return sources
}

// merger copies the live records of some segments, which come in the order of
// their revisions, into new ones.
type merger struct {
	log   *Log
	made  []*segment
	frame []byte            // the frame that is being filled
	batch []version         // the records in it, with their offsets in it
	moved map[int64]version // where the live records are now, by revision
}

func (m *merger) copyAll(ctx context.Context, sources []*segment) error {
	for _, s := range sources {
		scan := newScanner(s, s.end)
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			records, err := scan.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if isDamage(err) {
				return m.log.corrupt(s.name, scan.off, err.Error())
			}
			if err != nil {
				return err
			}
			if err := m.copyRecords(s.id, records); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyRecords copies those of the records that the index points to.
func (m *merger) copyRecords(id uint32, records []format.Placed) error {
	for len(records) > 0 {
		n := min(len(records), chunk)
		live := make([]bool, n)
		m.log.mu.Lock()
		for i, r := range records[:n] {
			v, ok := m.log.index.version(change{revision: r.Revision, key: r.Key})
			live[i] = ok && v.segment == id && int64(v.offset) == r.Offset
		}
		m.log.mu.Unlock()
		for i, r := range records[:n] {
			if !live[i] {
				continue
			}
			if err := m.add(r); err != nil {
				return err
			}
		}
		records = records[n:]
	}
	return nil
}

func (m *merger) add(r format.Placed) error {
	if len(m.frame)+r.Size > mergeFrameBytes && len(m.batch) > 0 {
		if err := m.flush(); err != nil {
			return err
		}
	}
	if len(m.batch) == 0 {
		m.frame = append(m.frame[:0], make([]byte, format.FrameHeaderBytes)...)
	}
	v := version{
		revision: r.Revision, create: r.Create, millis: r.Millis,
		offset: uint32(len(m.frame)), size: uint32(r.Size), deleted: r.Kind == format.KindDelete,
	}
	encoded := format.NewRecord(r.Kind, r.Key, r.Value)
	format.StampRecord(encoded, r.Stamp)
	m.frame = append(m.frame, encoded...)
	m.batch = append(m.batch, v)
	return nil
}

// flush writes the frame to the newest base segment that has room.
func (m *merger) flush() error {
	if len(m.batch) == 0 {
		return nil
	}
	seg, err := m.room(format.FrameSize(len(m.frame)-format.FrameHeaderBytes), m.batch[0].revision)
	if err != nil {
		return err
	}
	for _, v := range m.batch {
		format.SealRecord(m.frame[v.offset:v.offset+v.size], seg.seed)
		v.segment, v.offset = seg.id, v.offset+uint32(seg.end)
		m.moved[v.revision] = v
		seg.live += int64(v.size) // it is in no set yet: nobody else sees it
		seg.last = v.revision
	}
	b, f := format.SealFrame(m.frame, format.Frame{Count: len(m.batch), First: m.batch[0].revision, Chain: seg.chain}, seg.seed, seg.end)
	if _, err := seg.file.WriteAt(b, seg.end); err != nil {
		return fmt.Errorf("write %s: %w", seg.name, err)
	}
	seg.end += f.Size()
	seg.chain = f.Payload
	m.batch = m.batch[:0]
	return nil
}

// room returns a base segment that takes need more bytes.
func (m *merger) room(need, first int64) (*segment, error) {
	if n := len(m.made); n > 0 && m.made[n-1].end+need <= m.log.opts.SegmentBytes {
		return m.made[n-1], nil
	}
	seg, err := m.log.createBase(first)
	if err != nil {
		return nil, err
	}
	m.made = append(m.made, seg)
	return seg, nil
}

func (l *Log) createBase(first int64) (*segment, error) {
	l.mu.Lock()
	entry := format.SegmentEntry{ID: l.nextSegment, Kind: format.KindBase, First: first, Last: first - 1, Sealed: true}
	l.nextSegment++
	l.mu.Unlock()
	return l.createSegment(entry, format.SegmentHeaderBytes, 0)
}

// finish makes the new segments durable.
func (m *merger) finish() error {
	if err := m.flush(); err != nil {
		return err
	}
	for _, s := range m.made {
		if err := s.file.Sync(); err != nil {
			return fmt.Errorf("sync %s: %w", s.name, err)
		}
	}
	return nil
}

// abandon removes what was made. After a manifest that may or may not have been
// replaced, the files stay: the next start knows which of them are needed.
func (m *merger) abandon(err error) error {
	_, unknown := errors.AsType[*store.PoisonedError](err)
	for _, s := range m.made {
		err = errors.Join(err, s.file.Close())
		if !unknown {
			err = errors.Join(err, m.log.fs.Remove(s.name))
		}
	}
	return fmt.Errorf("merge segments: %w", err)
}

// adopt points the index to the copies and lets the old segments go.
func (l *Log) adopt(sources, made []*segment, moved map[int64]version) {
	for _, s := range sources {
		s.retired.Store(true)
	}
	l.mu.Lock()
	with := append(slices.Clone(l.segments.ordered), made...)
	both := l.replaceSegmentsLocked(with)
	l.mu.Unlock()
	both.release(l)
	l.relocate(moved)
	l.mu.Lock()
	kept := slices.DeleteFunc(slices.Clone(l.segments.ordered), func(s *segment) bool { return slices.Contains(sources, s) })
	old := l.replaceSegmentsLocked(kept)
	l.mu.Unlock()
	old.release(l)
	l.logger.Info("merged old segments", slog.Int("from", len(sources)), slog.Int("into", len(made)))
}

// relocate points the versions that were copied to their copies.
func (l *Log) relocate(moved map[int64]version) {
	wasMoved := func(v version) bool {
		_, ok := moved[v.revision]
		return ok
	}
	var pivot string
	for more := true; more; {
		var batch []history
		more = false
		walked := 0
		l.mu.Lock()
		l.index.keys.Ascend(pivot, func(key string, h history) bool {
			if walked++; walked > checkEvery || len(batch) == chunk {
				pivot, more = key, true
				return false
			}
			if slices.ContainsFunc(h.versions, wasMoved) {
				batch = append(batch, h)
			}
			return true
		})
		for _, h := range batch {
			versions := slices.Clone(h.versions) // snapshots keep reading the old ones
			for i, v := range versions {
				if to, ok := moved[v.revision]; ok {
					versions[i] = to
				}
			}
			l.index.keys.Set(h.key, history{key: h.key, versions: versions})
		}
		l.snapshot = nil
		l.mu.Unlock()
	}
}
