package build

import (
	"errors"
	"fmt"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// frameBytes is where a frame ends.
const frameBytes = 1 << 20

// segments writes records, in the order of their revisions, to base segments.
type segments struct {
	fs      disk.FS
	id      format.StoreID
	bytes   int64  // where a segment ends
	shared  bool   // records may have one revision: End.Shared
	next    uint32 // id of the next one
	entries []format.SegmentEntry

	file  disk.File // of the last entry, while that is written
	seed  uint32
	frame []byte // that is being filled: room for its header, and records
	count int    // of them
	first int64  // revision of the first of them
	last  int64  // revision
}

// put adds a record.
func (s *segments) put(revision int64, record []byte) error {
	switch {
	case revision > s.last:
	case s.shared:
		revision = s.last + 1
		format.MoveRecord(record, revision)
	default:
		return fmt.Errorf("two records have the revision %d: %w", revision, store.ErrInvalid)
	}
	if s.file != nil && s.entry().End+int64(len(s.frame)+len(record)) > s.bytes {
		if err := s.seal(); err != nil {
			return err
		}
	}
	if s.count > 0 && len(s.frame)+len(record) > frameBytes {
		if err := s.write(); err != nil {
			return err
		}
	}
	if s.file == nil {
		if err := s.begin(revision); err != nil {
			return err
		}
	}
	if s.count == 0 {
		s.frame, s.first = append(s.frame[:0], make([]byte, format.FrameHeaderBytes)...), revision
	}
	at := len(s.frame)
	s.frame = append(s.frame, record...)
	format.SealRecord(s.frame[at:], s.seed)
	s.count, s.last = s.count+1, revision
	return nil
}

// entry is that of the segment that is written.
func (s *segments) entry() *format.SegmentEntry { return &s.entries[len(s.entries)-1] }

// begin makes the next segment.
func (s *segments) begin(first int64) error {
	e := format.SegmentEntry{
		ID: s.next, Kind: format.KindBase, First: first, Last: first, End: format.SegmentHeaderBytes, Sealed: true,
	}
	s.next++
	file, err := s.fs.Create(e.Name())
	if err != nil {
		return fmt.Errorf("create segment %s: %w", e.Name(), err)
	}
	s.file, s.entries = file, append(s.entries, e)
	header := format.EncodeSegmentHeader(e, s.id, 0)
	if _, err := file.WriteAt(header, 0); err != nil {
		return fmt.Errorf("write %s: %w", e.Name(), err)
	}
	s.seed = format.SegmentSeed(header)
	return nil
}

// write writes the frame.
func (s *segments) write() error {
	if s.count == 0 {
		return nil
	}
	e := s.entry()
	frame, f := format.SealFrame(s.frame, format.Frame{Count: s.count, First: s.first, Chain: e.Chain}, s.seed, e.End)
	if _, err := s.file.WriteAt(frame, e.End); err != nil {
		return fmt.Errorf("write %s: %w", e.Name(), err)
	}
	e.End, e.Chain, e.Last = e.End+f.Size(), f.Payload, s.last
	s.frame, s.count = frame[:0], 0
	return nil
}

// seal completes the segment that is written, if there is one.
func (s *segments) seal() error {
	if s.file == nil {
		return nil
	}
	if err := s.write(); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", s.entry().Name(), err)
	}
	return s.close()
}

// close closes the file, if there is one.
func (s *segments) close() (err error) {
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	s.file = nil
	return err
}
