package revlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

const scanBytes = 1 << 20

// scanner reads the frames of a segment in order, through a buffer.
type scanner struct {
	seg   *segment
	end   int64 // where to stop
	off   int64 // of the next frame
	chain uint32
	last  int64 // revision of the last record that was returned
	dirty bool  // torn found something that is not zero at off or behind

	buf   []byte
	start int64 // offset of buf[0]
}

func newScanner(seg *segment, end int64) *scanner {
	return &scanner{seg: seg, end: end, off: format.SegmentHeaderBytes, last: seg.first - 1}
}

// next returns the records of the next frame, which are valid until it is called
// again, or io.EOF. An error that is no damage is the file system's.
func (s *scanner) next() ([]format.Placed, error) {
	if s.off >= s.end {
		return nil, io.EOF
	}
	head, err := s.bytes(s.off, format.FrameHeaderBytes)
	if err != nil {
		return nil, err
	}
	f, err := format.DecodeFrame(head, s.seg.seed, s.off)
	if err != nil {
		return nil, err
	}
	if f.Chain != s.chain {
		return nil, fmt.Errorf("%w: it follows frame %08x, not %08x", format.ErrBadFrame, f.Chain, s.chain)
	}
	if s.off+f.Size() > s.end {
		return nil, fmt.Errorf("%w: %d bytes reach over the end", format.ErrBadFrame, f.Bytes)
	}
	payload, err := s.bytes(s.off+format.FrameHeaderBytes, f.Bytes)
	if err != nil {
		return nil, err
	}
	records, err := format.DecodePayload(f, payload, s.seg.seed, s.off)
	if err != nil {
		return nil, err
	}
	last := s.last
	for _, r := range records {
		if r.Revision <= last || s.seg.kind == format.KindLog && r.Revision != last+1 {
			return nil, fmt.Errorf("%w: revision %d follows %d", format.ErrBadFrame, r.Revision, last)
		}
		last = r.Revision
	}
	s.last = last
	s.off += f.Size()
	s.chain = f.Payload
	return records, nil
}

// isDamage says that err is about the bytes of a segment.
func isDamage(err error) bool {
	return errors.Is(err, format.ErrBadFrame) || errors.Is(err, format.ErrBadRecord)
}

// bytes returns n bytes at off; fewer than that are a bad frame.
func (s *scanner) bytes(off int64, n int) ([]byte, error) {
	if at := off - s.start; at >= 0 && at+int64(n) <= int64(len(s.buf)) {
		return s.buf[at : at+int64(n)], nil
	}
	if want := max(n, int(min(scanBytes, s.end-off))); cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf = s.buf[:cap(s.buf)]
	got, err := s.seg.file.ReadAt(s.buf[:min(int64(cap(s.buf)), s.end-off)], off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.buf = s.buf[:0]
		return nil, fmt.Errorf("read %s at %d: %w", s.seg.name, off, err)
	}
	s.start, s.buf = off, s.buf[:got]
	if got < n {
		return nil, fmt.Errorf("%w: the file ends after %d of %d bytes", format.ErrBadFrame, got, n)
	}
	return s.buf[:n], nil
}

// sectorBytes is what a disk writes wholly or not at all.
const sectorBytes = 512

// torn says whether what is at off, where no frame could be read, can be the
// rest of a write that was cut off: then some sector of it was never written,
// and nothing was written after it. It sets dirty if there is anything at all.
func (s *scanner) torn() (bool, error) {
	follows, err := s.frameFollows()
	if err != nil || follows {
		return false, err
	}
	if !s.dirty {
		return true, nil
	}
	head, err := s.bytes(s.off, int(min(format.FrameHeaderBytes, s.end-s.off)))
	if err != nil || isZero(head) {
		return err == nil, err
	}
	f, err := format.DecodeFrame(head, s.seg.seed, s.off)
	if err != nil || s.off+f.Size() > s.end {
		return false, nil //nolint:nilerr // a head that cannot be read is not an empty one: that is the answer
	}
	b, err := s.bytes(s.off, int(f.Size()))
	if err != nil {
		return false, err
	}
	for from := 0; from < len(b); {
		to := min(len(b), from+sectorBytes-int((s.off+int64(from))%sectorBytes))
		if isZero(b[from:to]) {
			return true, nil
		}
		from = to
	}
	return false, nil
}

// frameFollows says whether there is a frame behind off.
func (s *scanner) frameFollows() (bool, error) {
	for off := s.off; off < s.end; off += format.FrameAlign {
		b, err := s.bytes(off, int(min(format.FrameHeaderBytes, s.end-off)))
		if err != nil {
			return false, err
		}
		if isZero(b) {
			continue
		}
		s.dirty = true
		if off == s.off || len(b) < format.FrameHeaderBytes || !format.IsFrame(b) {
			continue
		}
		if _, err := format.DecodeFrame(b, s.seg.seed, off); err == nil {
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
