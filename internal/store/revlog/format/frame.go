package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// A frame is what one write and one sync put into a segment. It begins at a
// multiple of 32 bytes, so that its header lies in one sector of the disk:
//
//	 0 magic    u32
//	 4 crc      u32  crc32c of the header's rest, seeded with segment and offset
//	 8 bytes    u32  length of the records that follow
//	12 count    u32  number of records
//	16 first    i64  revision of the first record
//	24 payload  u32  crc32c of the records, seeded like the header
//	28 chain    u32  the frame before: its payload checksum
//
// The next frame is written only after this one is synced. So damage that is
// followed by a frame is not a torn write.
const (
	// FrameHeaderBytes is what a frame takes beside its records.
	FrameHeaderBytes = 32
	// FrameAlign divides the offset of every frame.
	FrameAlign = 32
	// MaxGroupBytes is where a frame is full: it takes one more record at most.
	MaxGroupBytes = 4 << 20

	// MaxFrameBytes is the most that a frame takes.
	MaxFrameBytes = FrameHeaderBytes + maxPayloadBytes + FrameAlign

	frameMagic      = 0x6d726667 // "gfrm"
	maxPayloadBytes = MaxGroupBytes + MaxRecordBytes
)

// ErrBadFrame is wrapped by the errors of bytes that are no frame.
var ErrBadFrame = errors.New("bad frame")

// Frame is the header of a frame.
type Frame struct {
	Bytes   int    // length of the records
	Count   int    // number of records
	First   int64  // revision of the first of them
	Payload uint32 // checksum of the records
	Chain   uint32 // Payload of the frame before
}

// Size is what the frame takes in its segment.
func (f Frame) Size() int64 { return FrameSize(f.Bytes) }

// FrameSize is what a frame takes of which the records have so many bytes.
func FrameSize(payload int) int64 {
	return int64(align(FrameHeaderBytes+payload, FrameAlign))
}

func frameSeed(seed uint32, off int64) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(off))
	return crc32.Update(seed, castagnoli, b[:])
}

// SealFrame completes a frame at off: b begins with an empty header that the
// records follow. It returns b padded to the frame's whole size, and the frame.
func SealFrame(b []byte, f Frame, seed uint32, off int64) ([]byte, Frame) {
	seed = frameSeed(seed, off)
	f.Bytes = len(b) - FrameHeaderBytes
	f.Payload = crc32.Update(seed, castagnoli, b[FrameHeaderBytes:])
	binary.LittleEndian.PutUint32(b, frameMagic)
	binary.LittleEndian.PutUint32(b[8:], uint32(f.Bytes))
	binary.LittleEndian.PutUint32(b[12:], uint32(f.Count))
	binary.LittleEndian.PutUint64(b[16:], uint64(f.First))
	binary.LittleEndian.PutUint32(b[24:], f.Payload)
	binary.LittleEndian.PutUint32(b[28:], f.Chain)
	binary.LittleEndian.PutUint32(b[4:], crc32.Update(seed, castagnoli, b[8:FrameHeaderBytes]))
	return pad(b, FrameAlign), f
}

// IsFrame reports whether b begins like a frame; only DecodeFrame knows.
func IsFrame(b []byte) bool { return binary.LittleEndian.Uint32(b) == frameMagic }

// DecodeFrame reads the header of the frame at off, of which b are the first bytes.
func DecodeFrame(b []byte, seed uint32, off int64) (Frame, error) {
	if len(b) < FrameHeaderBytes {
		return Frame{}, fmt.Errorf("%w: %d bytes are too few for a header", ErrBadFrame, len(b))
	}
	if !IsFrame(b) {
		return Frame{}, fmt.Errorf("%w: it begins with %x", ErrBadFrame, b[:4])
	}
	got := crc32.Update(frameSeed(seed, off), castagnoli, b[8:FrameHeaderBytes])
	if want := binary.LittleEndian.Uint32(b[4:]); got != want {
		return Frame{}, fmt.Errorf("%w: header checksum %08x, want %08x", ErrBadFrame, got, want)
	}
	f := Frame{
		Bytes:   int(binary.LittleEndian.Uint32(b[8:])),
		Count:   int(binary.LittleEndian.Uint32(b[12:])),
		First:   int64(binary.LittleEndian.Uint64(b[16:])),
		Payload: binary.LittleEndian.Uint32(b[24:]),
		Chain:   binary.LittleEndian.Uint32(b[28:]),
	}
	if f.Bytes < RecordHeaderBytes || f.Bytes > maxPayloadBytes || f.Count < 1 || f.First < 1 {
		return Frame{}, fmt.Errorf("%w: %d records from revision %d in %d bytes", ErrBadFrame, f.Count, f.First, f.Bytes)
	}
	return f, nil
}

// DamagedRecord returns the offset of the first record of a frame at off that is not whole, or off
// if all are: then it is the frame that is damaged.
func DamagedRecord(payload []byte, seed uint32, off int64) int64 {
	at := off + FrameHeaderBytes
	for len(payload) > 0 {
		_, size, err := DecodeRecord(payload, seed)
		if err != nil {
			return at
		}
		payload, at = payload[size:], at+int64(size)
	}
	return off
}

// Placed is a record and where in its segment it lies.
type Placed struct {
	Record

	Offset int64
	Size   int
}

// DecodePayload checks the records of the frame at off and returns them. They
// alias payload.
func DecodePayload(f Frame, payload []byte, seed uint32, off int64) ([]Placed, error) {
	if got := crc32.Update(frameSeed(seed, off), castagnoli, payload); got != f.Payload {
		return nil, fmt.Errorf("%w: checksum %08x, want %08x", ErrBadFrame, got, f.Payload)
	}
	records := make([]Placed, 0, min(f.Count, len(payload)/RecordHeaderBytes))
	at := off + FrameHeaderBytes
	for len(payload) > 0 {
		r, size, err := ParseRecord(payload)
		if err != nil {
			return nil, err
		}
		records = append(records, Placed{Record: r, Offset: at, Size: size})
		payload, at = payload[size:], at+int64(size)
	}
	if len(records) != f.Count || records[0].Revision != f.First {
		return nil, fmt.Errorf("%w: %d records from revision %d, want %d from %d",
			ErrBadFrame, len(records), records[0].Revision, f.Count, f.First)
	}
	return records, nil
}
