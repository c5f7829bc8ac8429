package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// scanBytes is how much a Scanner reads at once.
const scanBytes = 1 << 20

// SegmentReader is a segment that is to be read.
type SegmentReader struct {
	File  io.ReaderAt
	Name  string // for messages
	Kind  SegmentKind
	First int64  // no record has a smaller revision
	Seed  uint32 // see SegmentSeed
	End   int64  // where to stop
}

// Scanner reads the frames of a segment in order, through a buffer. It is used by
// one goroutine at a time.
type Scanner struct {
	SegmentReader

	// Offset is where the next frame begins, Last the revision of the last record
	// that was returned, and Chain the payload checksum of its frame. Dirty says that
	// Torn found something that is not zero at Offset or behind.
	Offset int64
	Last   int64
	Chain  uint32
	Dirty  bool

	damaged int64 // offset of what could not be read; 0: it is not known better than Offset

	frame int64 // offset of the last frame that was read; 0 before the first
	buf   []byte
	start int64 // offset of buf[0]
}

// NewScanner returns a scanner at the first frame of a segment.
func NewScanner(r SegmentReader) *Scanner {
	return &Scanner{SegmentReader: r, Offset: SegmentHeaderBytes, Last: r.First - 1}
}

// Next returns the records of the next frame, which are valid until it is called
// again, or io.EOF. An error that is no damage is the file system's.
func (s *Scanner) Next() ([]Placed, error) {
	if s.Offset >= s.End {
		return nil, io.EOF
	}
	head, err := s.bytes(s.Offset, FrameHeaderBytes)
	if err != nil {
		return nil, err
	}
	f, err := DecodeFrame(head, s.Seed, s.Offset)
	if err != nil {
		return nil, err
	}
	if f.Chain != s.Chain {
		return nil, fmt.Errorf("%w: it follows frame %08x, not %08x", ErrBadFrame, f.Chain, s.Chain)
	}
	if s.Offset+f.Size() > s.End {
		return nil, fmt.Errorf("%w: %d bytes reach over the end", ErrBadFrame, f.Bytes)
	}
	payload, err := s.bytes(s.Offset+FrameHeaderBytes, f.Bytes)
	if err != nil {
		return nil, err
	}
	records, err := DecodePayload(f, payload, s.Seed, s.Offset)
	if err != nil {
		s.damaged = DamagedRecord(payload, s.Seed, s.Offset)
		return nil, err
	}
	last := s.Last
	for _, r := range records {
		if r.Revision <= last || s.Kind == KindLog && r.Revision != last+1 {
			return nil, fmt.Errorf("%w: revision %d follows %d", ErrBadFrame, r.Revision, last)
		}
		last = r.Revision
	}
	s.Last = last
	s.frame = s.Offset
	s.Offset += f.Size()
	s.Chain = f.Payload
	return records, nil
}

// Damaged returns where the damage begins after Next has returned it: at a record, or where the
// frame does.
func (s *Scanner) Damaged() int64 { return max(s.damaged, s.Offset) }

// LastFrame returns the bytes of the last frame that was read, none if there was
// none.
func (s *Scanner) LastFrame() ([]byte, error) {
	if s.frame == 0 {
		return nil, nil
	}
	return s.bytes(s.frame, int(s.Offset-s.frame))
}

// IsDamage says that err is about the bytes of a segment.
func IsDamage(err error) bool {
	return errors.Is(err, ErrBadFrame) || errors.Is(err, ErrBadRecord)
}

// bytes returns n bytes at off; fewer than that are a bad frame.
func (s *Scanner) bytes(off int64, n int) ([]byte, error) {
	if at := off - s.start; at >= 0 && at+int64(n) <= int64(len(s.buf)) {
		return s.buf[at : at+int64(n)], nil
	}
	if want := max(n, int(min(scanBytes, s.End-off))); cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:cap(s.buf)]
	got, err := s.File.ReadAt(s.buf[:min(int64(cap(s.buf)), s.End-off)], off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("read %s at %d: %w", s.Name, off, err)
	}
	s.start, s.buf = off, s.buf[:got]
	if got < n {
		return nil, fmt.Errorf("%w: the file ends after %d of %d bytes", ErrBadFrame, got, n)
	}
	return s.buf[:n], nil
}

// sectorBytes is what a disk writes wholly or not at all.
const sectorBytes = 512

// Torn reports whether what is at Offset, where no frame could be read, can be the
// rest of a write that was cut off: then some sector of it was never written,
// and nothing was written after it. It sets Dirty if there is anything at all.
func (s *Scanner) Torn() (bool, error) {
	follows, err := s.frameFollows()
	if err != nil || follows {
		return false, err
	}
	if !s.Dirty {
		return true, nil
	}
	head, err := s.bytes(s.Offset, int(min(FrameHeaderBytes, s.End-s.Offset)))
	if err != nil || isZero(head) {
		return err == nil, err
	}
	f, err := DecodeFrame(head, s.Seed, s.Offset)
	if err != nil || s.Offset+f.Size() > s.End {
		return false, nil //nolint:nilerr // a head that cannot be read is not an empty one: that is the answer
	}
	b, err := s.bytes(s.Offset, int(f.Size()))
	if err != nil {
		return false, err
	}
	for from := 0; from < len(b); {
		to := min(len(b), from+sectorBytes-int((s.Offset+int64(from))%sectorBytes))
		if isZero(b[from:to]) {
			return true, nil
		}
		from = to
	}
	return false, nil
}

// frameFollows reports whether there is a frame behind Offset.
func (s *Scanner) frameFollows() (bool, error) {
	for off := s.Offset; off < s.End; off += FrameAlign {
		b, err := s.bytes(off, int(min(FrameHeaderBytes, s.End-off)))
		if err != nil {
			return false, err
		}
		if isZero(b) {
			continue
		}
		s.Dirty = true
		if off == s.Offset || len(b) < FrameHeaderBytes || !IsFrame(b) {
			continue
		}
		if _, err := DecodeFrame(b, s.Seed, off); err == nil {
			return true, nil
		}
	}
	return false, nil
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
