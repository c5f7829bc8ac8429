package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// A segment is a file that begins with
//
//	 0 magic  8 bytes
//	 8 format u32
//	12 id     u32
//	16 store  16 bytes, the log's id
//	32 first  i64  no record has a smaller revision
//	40 chain  u32  payload checksum of the last frame of the segment before
//	44 kind   1 byte: 'l' log, 'b' base
//	60 crc    u32  crc32c of the 60 bytes before
//
// and continues with frames. A log segment holds every revision from its first to
// its last; a base segment holds what of older ones was still needed when it was
// made. Everything in a segment is checksummed with a seed made of the header's
// first 32 bytes, so that no bytes of another file or log are taken for its own.
const (
	// SegmentMagic is how every segment begins.
	SegmentMagic = "gaplesss"
	// SegmentHeaderBytes is the offset of the first frame.
	SegmentHeaderBytes = 64

	// FirstSegment is the id of the first segment of a log, which has every revision from the
	// first write on, unless a repair made the log.
	FirstSegment = 1

	segmentFormat = 1
)

// SegmentEntry describes one segment. For the one that is written, End, Last and
// Chain say how far it reached at least.
type SegmentEntry struct {
	ID     uint32      `json:"id"`
	Kind   SegmentKind `json:"kind"`
	First  int64       `json:"first"`
	Last   int64       `json:"last"`
	End    int64       `json:"end"`   // bytes
	Chain  uint32      `json:"chain"` // payload checksum of the last frame
	Size   int64       `json:"size"`  // bytes that were allocated at least; 0 once it is sealed
	Sealed bool        `json:"sealed"`
}

// SegmentKind says what a segment holds.
type SegmentKind string

// The kinds of segments.
const (
	KindLog  SegmentKind = "log"
	KindBase SegmentKind = "base"
)

// Name returns the name of the segment's file.
func (e SegmentEntry) Name() string {
	if e.Kind == KindBase {
		return fmt.Sprintf("base-%08x.log", e.ID)
	}
	return fmt.Sprintf("seg-%016x.log", uint64(e.First))
}

// IsSegmentName reports whether a file has a name as those of segments.
func IsSegmentName(name string) bool {
	return strings.HasSuffix(name, ".log") && (strings.HasPrefix(name, "seg-") || strings.HasPrefix(name, "base-"))
}

// EncodeSegmentHeader returns the first bytes of a segment.
func EncodeSegmentHeader(e SegmentEntry, id StoreID, chain uint32) []byte {
	b := make([]byte, SegmentHeaderBytes)
	copy(b, SegmentMagic)
	binary.LittleEndian.PutUint32(b[8:], segmentFormat)
	binary.LittleEndian.PutUint32(b[12:], e.ID)
	copy(b[16:], id[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(e.First))
	binary.LittleEndian.PutUint32(b[40:], chain)
	b[44] = e.Kind[0]
	binary.LittleEndian.PutUint32(b[60:], crc32.Checksum(b[:60], castagnoli))
	return b
}

// ErrNewerSegment is wrapped by the errors of segments of a newer format.
var ErrNewerSegment = errors.New("written by a newer version")

// CheckSegmentFormat returns ErrNewerSegment for the whole header of a segment of a newer format.
// A damaged header is of none.
func CheckSegmentFormat(b []byte) error {
	if len(b) < SegmentHeaderBytes || string(b[:8]) != SegmentMagic ||
		crc32.Checksum(b[:60], castagnoli) != binary.LittleEndian.Uint32(b[60:]) {
		return nil
	}
	if found := binary.LittleEndian.Uint32(b[8:]); found > segmentFormat {
		return fmt.Errorf("%w: format %d, this one reads %d", ErrNewerSegment, found, segmentFormat)
	}
	return nil
}

// CheckSegmentHeader compares the header of a segment with what the manifest
// says of it, and returns the chain it continues. Errors: ErrNewerSegment, and what is wrong.
func CheckSegmentHeader(b []byte, e SegmentEntry, id StoreID) (uint32, error) {
	if len(b) < SegmentHeaderBytes {
		return 0, fmt.Errorf("the header has %d bytes", len(b))
	}
	if string(b[:8]) != SegmentMagic {
		return 0, fmt.Errorf("it begins with %q, not as a segment does", b[:8])
	}
	if err := CheckSegmentFormat(b); err != nil {
		return 0, err
	}
	chain := binary.LittleEndian.Uint32(b[40:])
	if want := EncodeSegmentHeader(e, id, chain); string(b[:SegmentHeaderBytes]) != string(want) {
		return 0, errors.New("its header is damaged or belongs to another log")
	}
	return chain, nil
}

// SegmentHeaderID returns the id in a segment's header.
func SegmentHeaderID(header []byte) uint32 { return binary.LittleEndian.Uint32(header[12:]) }

// SegmentSeed returns the seed of every checksum in the segment with this header.
func SegmentSeed(header []byte) uint32 { return crc32.Checksum(header[:32], castagnoli) }
