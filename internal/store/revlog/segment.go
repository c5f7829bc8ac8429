package revlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
	"github.com/gapless-io/gapless/internal/store/revlog/index"
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
	sealed   bool
	live     int64 // bytes of records that the index points to
	// frees is how many bytes are history because of the writes in it: what they
	// superseded, and their deletions. It is what compacting the segment drops.
	frees int64

	sets    atomic.Int64 // segment sets that hold it
	retired atomic.Bool  // no manifest lists it: remove the file after the last reader
}

func (s *segment) entry() format.SegmentEntry {
	e := format.SegmentEntry{ID: s.id, Kind: s.kind, First: s.first, Last: s.last, End: s.end, Chain: s.chain, Sealed: s.sealed}
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

// Bounds of one read: records that lie close together are read at once. A feed may select
// few of the records that it finds: what lies between them would cost it more memory and
// time than further reads.
const (
	loadBytes = 256 << 10
	loadGap   = 16 << 10
	feedGap   = 1 << 10
)

// wanted is a version whose value is to be read.
type wanted struct {
	key     string
	version index.Version
	value   []byte // the result; the caller's own
}

// load reads the values of order from the segments and checks them. It sorts order.
func (s *segmentSet) load(ctx context.Context, dir string, order []*wanted) error {
	slices.SortFunc(order, func(a, b *wanted) int {
		return cmp.Or(cmp.Compare(a.version.Segment, b.version.Segment), cmp.Compare(a.version.Offset, b.version.Offset))
	})
	var shared []byte
	for len(order) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, start, end := run(order, loadGap)
		buf := shared
		if n == 1 {
			buf = make([]byte, end-start) // its value stays where it was read
		} else if int64(cap(buf)) < end-start {
			shared = make([]byte, max(end-start, loadBytes))
			buf = shared
		}
		buf = buf[:end-start]
		if err := s.loadRun(dir, order[:n], start, buf); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// run returns how many of the first wants are read at once, and from where to
// where. Not more than gap bytes lie between two of them.
func run(order []*wanted, gap int64) (n int, start, end int64) {
	first := order[0].version
	start, end = int64(first.Offset), int64(first.Offset)+int64(first.Size)
	for n = 1; n < len(order); n++ {
		v := order[n].version
		next := int64(v.Offset) + int64(v.Size)
		if v.Segment != first.Segment || int64(v.Offset) > end+gap || next-start > loadBytes {
			break
		}
		end = max(end, next)
	}
	return n, start, end
}

func (s *segmentSet) loadRun(dir string, wants []*wanted, start int64, buf []byte) error {
	seg := s.byID[wants[0].version.Segment]
	if seg == nil {
		return fmt.Errorf("read revision %d of %q: segment %d is gone", wants[0].version.Revision, wants[0].key, wants[0].version.Segment)
	}
	if n, err := seg.file.ReadAt(buf, start); err != nil && (n < len(buf) || !errors.Is(err, io.EOF)) {
		return fmt.Errorf("read %d bytes of %s at %d: %w", len(buf), seg.name, start, err)
	}
	for _, w := range wants {
		at := int64(w.version.Offset) - start
		r, _, err := format.DecodeRecord(buf[at:at+int64(w.version.Size)], seg.seed)
		if err == nil && (r.Key != w.key || r.Revision != w.version.Revision) {
			err = fmt.Errorf("revision %d of %q is there instead of %d of %q", r.Revision, r.Key, w.version.Revision, w.key)
		}
		if err != nil {
			return &store.CorruptError{
				Path: dir + "/" + seg.name, Offset: int64(w.version.Offset), Found: err.Error(),
				Advice: adviceRestore,
			}
		}
		if w.value = r.Value; len(wants) > 1 {
			w.value = append(make([]byte, 0, len(r.Value)), r.Value...)
		}
	}
	return nil
}

// openLocked makes segments the ones that readers use. It returns the set that
// they used before; the caller releases it after giving mu back.
func (l *Log) openLocked(segments []*segment) *segmentSet {
	old := l.segments
	l.segments = newSegmentSet(segments)
	return old
}
