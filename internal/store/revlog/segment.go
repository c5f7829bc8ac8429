package revlog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// segment is an open segment file.
type segment struct {
	id    uint32
	kind  format.SegmentKind
	name  string
	first int64
	seed  uint32
	file  disk.File

	// Log.mu guards these. The sequencer alone moves all but live.
	capacity int64 // the size that was allocated
	end      int64
	last     int64
	chain    uint32
	onDisk   *extent // how much of it is on disk for certain, if that is less; nil: all of it is
	sealed   bool
	live     int64 // bytes of records that the index points to
	// frees is how many bytes are history because of the writes in it: what they
	// superseded, and their deletions. It is what compacting the segment drops.
	frees int64

	sets    atomic.Int64 // segment sets that hold it
	retired atomic.Bool  // no manifest lists it: remove the file after the last reader
}

func (s *segment) entry() format.SegmentEntry {
	has := s.extent()
	if s.onDisk != nil {
		has = *s.onDisk
	}
	e := format.SegmentEntry{
		ID: s.id, Kind: s.kind, First: s.first, Last: has.last, End: has.end, Chain: has.chain, Sealed: s.sealed,
	}
	if !s.sealed {
		e.Size = s.capacity
	}
	return e
}

// reader is the segment up to end, for a scanner.
func (s *segment) reader(end int64) format.SegmentReader {
	return format.SegmentReader{File: s.file, Name: s.name, Kind: s.kind, First: s.first, Seed: s.seed, End: end}
}

// createSegment makes a segment file that is on disk with its header, but in no
// manifest. chain is that of the segment before.
func (l *Log) createSegment(e format.SegmentEntry, capacity int64, chain uint32) (*segment, error) {
	file, err := l.fs.Create(e.Name())
	if err != nil {
		return nil, fmt.Errorf("create segment %s: %w", e.Name(), err)
	}
	header := format.EncodeSegmentHeader(e, l.uuid, chain)
	err = file.Allocate(capacity)
	if err == nil {
		_, err = file.WriteAt(header, 0)
	}
	if err == nil {
		err = file.Sync() // if it fails nothing is lost: the file goes away again
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		err = fmt.Errorf("make segment %s: %w", e.Name(), err)
		return nil, errors.Join(err, file.Close(), l.fs.Remove(e.Name()))
	}
	return &segment{
		id: e.ID, kind: e.Kind, name: e.Name(), first: e.First, last: e.Last,
		seed: format.SegmentSeed(header), file: file, capacity: capacity, end: format.SegmentHeaderBytes, sealed: e.Sealed,
	}, nil
}

// segmentSet is the segments at one moment. Readers hold the set, so that no file
// is closed under them; it is never changed, only replaced.
type segmentSet struct {
	ordered []*segment // by first revision
	byID    map[uint32]*segment
	holders atomic.Int64
}

// newSegmentSet returns a set that its maker holds.
func newSegmentSet(segments []*segment) *segmentSet {
	s := &segmentSet{ordered: slices.Clone(segments), byID: make(map[uint32]*segment, len(segments))}
	slices.SortStableFunc(s.ordered, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.id, b.id))
	})
	for _, seg := range segments {
		s.byID[seg.id] = seg
		seg.sets.Add(1)
	}
	s.holders.Store(1)
	return s
}

// hold keeps the set's files open until release. Log.mu is held.
func (s *segmentSet) hold() *segmentSet {
	s.holders.Add(1)
	return s
}

// release closes the files that no set holds any more, and removes retired ones.
func (s *segmentSet) release(l *Log) {
	if s.holders.Add(-1) > 0 {
		return
	}
	for _, seg := range s.ordered {
		seg.release(l)
	}
}

// release takes the segment out of one set.
func (s *segment) release(l *Log) {
	if s.sets.Add(-1) > 0 {
		return
	}
	err := s.file.Close()
	if s.retired.Load() {
		err = errors.Join(err, l.fs.Remove(s.name))
	}
	if err != nil {
		l.logger.Warn("release a segment", slog.String("segment", s.name), slog.Any("error", err))
	}
}

// openLocked makes segments the ones that readers use. It returns the set that
// they used before; the caller releases it after giving mu back.
func (l *Log) openLocked(segments []*segment) *segmentSet {
	old := l.segments
	l.segments = newSegmentSet(segments)
	return old
}
