package revlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
)

const (
	// mergeFrameBytes is the size of a base segment's frames. Each is synced, and commits
	// wait for that.
	mergeFrameBytes = 256 << 10
	// shrinkSteps is in how many steps a file of the usual size is freed.
	shrinkSteps = 16
	// usualDead is at how many percent of dead bytes segments are merged, unless asked for.
	usualDead = 50
)

// merge frees disk space: when at least so many percent of the bytes in the segments
// that lie wholly in compacted history are dead (or a tenth, if that is more than
// a quarter of the history's budget), it copies the others to new base segments
// and removes the old files.
//
// It always takes all of those segments. A deletion hides the older records of
// its key, so it may be left out only when none of them stays behind.
func (l *Log) merge(ctx context.Context, percent int64) error {
	sources := l.mergeable(percent)
	if len(sources) == 0 {
		return nil
	}
	m := merger{log: l, moved: map[int64]index.Version{}}
	err := m.copyAll(ctx, sources)
	if err == nil {
		err = m.flush()
	}
	if err == nil {
		err = l.adopt(sources, m.made)
	}
	if err != nil {
		return m.abandon(err)
	}
	l.relocate(m.moved)
	l.retire(sources)
	l.logger.InfoContext(ctx, "merged old segments", slog.Int("from", len(sources)), slog.Int("into", len(m.made)))
	return nil
}

// mergeable returns the segments to merge, none if it is not worth it.
func (l *Log) mergeable(percent int64) []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sources []*segment
	var bytes, live int64
	for _, s := range l.listed {
		if s.sealed && s.last <= l.compacted.Revision {
			sources = append(sources, s)
			bytes += s.end - format.SegmentHeaderBytes
			live += s.live
		}
	}
	dead := bytes - live
	tight := l.opts.HistoryBytes > 0 && dead > l.opts.HistoryBytes/4 && dead*10 >= bytes
	if dead*100 < bytes*percent && !tight {
		return nil
	}
	return sources
}

// merger copies the live records of some segments, which come in the order of
// their revisions, into new ones.
type merger struct {
	log   *Log
	made  []*segment
	last  int64                   // revision of the last record
	frame []byte                  // the frame that is being filled
	batch []index.Version         // the records in it, with their offsets in it
	moved map[int64]index.Version // where the live records are now, by revision
}

func (m *merger) copyAll(ctx context.Context, sources []*segment) error {
	for _, s := range sources {
		scan := format.NewScanner(s.reader(s.end))
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			began := time.Now()
			records, err := scan.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if format.IsDamage(err) {
				return m.log.corrupt(s.name, scan.Offset, err.Error())
			}
			if err != nil {
				return err
			}
			if err := m.copyRecords(s.id, records); err != nil {
				return err
			}
			m.log.pause(began)
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
			v, ok := m.log.index.Version(index.Change{Revision: r.Revision, Key: r.Key})
			live[i] = ok && v.Segment == id && int64(v.Offset) == r.Offset
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
	if r.Revision <= m.last { // no start would read the result
		return fmt.Errorf("revision %d follows %d", r.Revision, m.last)
	}
	m.last = r.Revision
	if len(m.frame)+r.Size > mergeFrameBytes && len(m.batch) > 0 {
		if err := m.flush(); err != nil {
			return err
		}
	}
	if len(m.batch) == 0 {
		m.frame = append(m.frame[:0], make([]byte, format.FrameHeaderBytes)...)
	}
	v := index.Version{
		Revision: r.Revision, Create: r.Create, Millis: r.Millis,
		Offset: uint32(len(m.frame)), Size: uint32(r.Size), Deleted: r.Kind == format.KindDelete,
	}
	encoded := format.NewRecord(r.Kind, r.Key, r.Value)
	format.StampRecord(encoded, r.Stamp)
	m.frame = append(m.frame, encoded...)
	m.batch = append(m.batch, v)
	return nil
}

// flush writes the frame to the newest base segment that has room, and syncs it.
func (m *merger) flush() error {
	if len(m.batch) == 0 {
		return nil
	}
	seg, err := m.room(format.FrameSize(len(m.frame)-format.FrameHeaderBytes), m.batch[0].Revision)
	if err != nil {
		return err
	}
	for _, v := range m.batch {
		format.SealRecord(m.frame[v.Offset:v.Offset+v.Size], seg.seed)
		v.Segment, v.Offset = seg.id, v.Offset+uint32(seg.end)
		m.moved[v.Revision] = v
		seg.live += int64(v.Size) // it is in no set yet, so it has no reader
		seg.last = v.Revision
	}
	b, f := format.SealFrame(m.frame, format.Frame{Count: len(m.batch), First: m.batch[0].Revision, Chain: seg.chain}, seg.seed,
		seg.end)
	if _, err := seg.file.WriteAt(b, seg.end); err != nil {
		return fmt.Errorf("write %s: %w", seg.name, err)
	}
	seg.end += f.Size()
	seg.chain = f.Payload
	m.batch = m.batch[:0]
	// Little by little: a commit of the log waits for what is written back at once.
	if err := seg.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", seg.name, err)
	}
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

// adopt makes the manifest list the copies instead of the sources. Readers have
// both until the index points to the copies only.
func (l *Log) adopt(sources, made []*segment) error {
	isSource := func(id uint32) bool {
		return slices.ContainsFunc(sources, func(s *segment) bool { return s.id == id })
	}
	var before *segmentSet
	err := l.switchManifest(func(m *format.Manifest) {
		entries := make([]format.SegmentEntry, 0, len(made)+len(m.Segments))
		for _, s := range made {
			entries = append(entries, s.entry())
		}
		for _, e := range m.Segments {
			if !isSource(e.ID) {
				entries = append(entries, e)
			}
		}
		m.Segments = entries
	}, func() {
		listed := slices.Clone(made)
		for _, s := range l.listed {
			if !isSource(s.id) {
				listed = append(listed, s)
			}
		}
		l.listed = listed
		before = l.openLocked(append(slices.Clone(l.segments.ordered), made...))
	})
	if err == nil {
		before.release(l)
	}
	return err
}

// retire removes the sources of a merge once they have no readers.
func (l *Log) retire(sources []*segment) {
	for _, source := range sources {
		source.retired.Store(true)
		source.sets.Add(1)
		l.mu.Lock()
		before := l.openLocked(slices.DeleteFunc(slices.Clone(l.segments.ordered), func(s *segment) bool { return s == source }))
		l.mu.Unlock()
		before.release(l)
		if source.sets.Load() == 1 { // no reader has it, and none will
			l.shrink(source)
		}
		source.release(l)
	}
}

// shrink frees the bytes of a file that is going to be removed little by little: commits
// wait for what the file system frees at once.
func (l *Log) shrink(s *segment) {
	step := max(l.opts.SegmentBytes/shrinkSteps, 1)
	for size := s.end - step; size > 0; size -= step {
		began := time.Now()
		if err := s.file.Allocate(size); err != nil {
			return // its removal may succeed
		}
		l.pause(began)
	}
}

// relocate points the versions that were copied to their copies.
func (l *Log) relocate(moved map[int64]index.Version) {
	wasMoved := func(v index.Version) bool {
		_, ok := moved[v.Revision]
		return ok
	}
	var pivot string
	for more := true; more; {
		var batch []index.History
		more = false
		walked := 0
		began := time.Now()
		l.mu.Lock()
		l.index.Keys.Ascend(pivot, func(key string, h index.History) bool {
			if walked++; walked > walkKeys || len(batch) == chunk {
				pivot, more = key, true
				return false
			}
			if slices.ContainsFunc(h.Versions, wasMoved) {
				batch = append(batch, h)
			}
			return true
		})
		for _, h := range batch {
			versions := slices.Clone(h.Versions) // snapshots keep reading the old ones
			for i, v := range versions {
				if to, ok := moved[v.Revision]; ok {
					versions[i] = to
				}
			}
			l.index.Keys.Set(h.Key, index.History{Key: h.Key, Versions: versions})
		}
		l.snapshot = nil
		l.mu.Unlock()
		l.pause(began)
	}
}
