// Package format encodes and decodes the log's bytes on disk.
//
// A [Record] is one version of one key. A [Frame] is a group of records that was written and
// synced at once. A segment is a file of frames, of which this package knows the header. A
// [Manifest] lists the segments and the compactions. Decoders return an error that describes
// the problem for bytes that no encoder of this package writes; none of them panics.
package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
)

// A record, little endian, padded with padByte to a multiple of 8 bytes:
//
//	 0 crc      u32  crc32c of the rest, seeded with the segment
//	 4 size     u32  whole record with its padding
//	 8 revision i64
//	16 create   i64  revision that created the key; 0 for a deletion
//	24 previous i64  revision that this one superseded; 0 for a creation
//	32 millis   i64  wall clock, never decreasing from record to record
//	40 value    u32  length of the value
//	44 key      u16  length of the key
//	46 kind     u8
//	47 flags    u8   0
//	48 key, value, padding
const (
	// RecordHeaderBytes is what a record takes beside its key and value.
	RecordHeaderBytes = 48
	// MaxKeyBytes and MaxValueBytes bound one record.
	MaxKeyBytes   = 4 << 10
	MaxValueBytes = 8 << 20

	// MaxRecordBytes is the most that a record takes.
	MaxRecordBytes = RecordHeaderBytes + MaxKeyBytes + MaxValueBytes + recordAlign

	recordAlign = 8
	// padByte is not zero, so that an all-zero sector is one that was never
	// written.
	padByte = 0xa5
)

// Kind says what a record does to its key.
type Kind uint8

// The kinds of records.
const (
	KindPut    Kind = 1
	KindDelete Kind = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a compiled table

// ErrBadRecord is wrapped by the errors of bytes that are no record.
var ErrBadRecord = errors.New("bad record")

// Stamp is what the sequencer adds to a record.
type Stamp struct {
	Revision int64
	Create   int64 // revision that created the key; 0 for a deletion
	Previous int64 // revision that this one superseded; 0 for a creation
	Millis   int64
}

// Record is one version of one key. A decoded record's Value aliases the bytes
// it was decoded from.
type Record struct {
	Stamp

	Kind  Kind
	Key   string
	Value []byte
}

func align(n, to int) int { return (n + to - 1) / to * to }

// NewRecord encodes what the writer of a key knows. StampRecord and SealRecord
// complete it.
func NewRecord(kind Kind, key string, value []byte) []byte {
	return newRecord(make([]byte, 0, RecordSize(key, value)), kind, key, value)
}

// RecordSize returns how many bytes a record takes.
func RecordSize(key string, value []byte) int {
	return align(RecordHeaderBytes+len(key)+len(value), recordAlign)
}

// newRecord encodes a record into b, which is empty.
func newRecord(b []byte, kind Kind, key string, value []byte) []byte {
	size := RecordSize(key, value)
	b = append(b, make([]byte, RecordHeaderBytes)...)
	binary.LittleEndian.PutUint32(b[4:], uint32(size))
	binary.LittleEndian.PutUint32(b[40:], uint32(len(value)))
	binary.LittleEndian.PutUint16(b[44:], uint16(len(key)))
	b[46] = byte(kind)
	b = append(b, key...)
	b = append(b, value...)
	return pad(b, recordAlign)
}

// Records encodes records into memory that is used again. The zero value is ready. It is
// safe for concurrent use.
type Records struct{ unused sync.Pool }

// maxUnused is the size of the largest record whose memory is kept.
const maxUnused = 16 << 10

// New is NewRecord.
func (r *Records) New(kind Kind, key string, value []byte) []byte {
	b, _ := r.unused.Get().(*[]byte)
	if size := RecordSize(key, value); b == nil || cap(*b) < size {
		b = new(make([]byte, 0, max(size, 2<<10)))
	}
	return newRecord((*b)[:0], kind, key, value)
}

// Release gives a record back, which nobody uses any more.
func (r *Records) Release(b []byte) {
	if cap(b) <= maxUnused {
		r.unused.Put(&b)
	}
}

func pad(b []byte, to int) []byte {
	for len(b)%to != 0 {
		b = append(b, padByte)
	}
	return b
}

// StampRecord writes into an encoded record what the sequencer knows. SealRecord
// must follow.
func StampRecord(b []byte, s Stamp) {
	binary.LittleEndian.PutUint64(b[8:], uint64(s.Revision))
	binary.LittleEndian.PutUint64(b[16:], uint64(s.Create))
	binary.LittleEndian.PutUint64(b[24:], uint64(s.Previous))
	binary.LittleEndian.PutUint64(b[32:], uint64(s.Millis))
}

// MoveRecord gives a stamped record that is no deletion a later revision. SealRecord must follow.
func MoveRecord(b []byte, revision int64) {
	if binary.LittleEndian.Uint64(b[24:]) == 0 { // it was the creation: that is another revision now
		copy(b[24:32], b[16:24])
	}
	binary.LittleEndian.PutUint64(b[8:], uint64(revision))
}

// SealRecord computes the checksum of a record that is complete.
func SealRecord(b []byte, seed uint32) {
	binary.LittleEndian.PutUint32(b, crc32.Update(seed, castagnoli, b[4:]))
}

// RecordHead returns the revision and the size of the record of which b are the first
// RecordHeaderBytes. It checks nothing.
func RecordHead(b []byte) (revision int64, size int) {
	return int64(binary.LittleEndian.Uint64(b[8:])), int(binary.LittleEndian.Uint32(b[4:]))
}

// ParseRecord reads the record at the start of b and returns its size. It does
// not check the checksum: the caller has checked that of the frame.
func ParseRecord(b []byte) (Record, int, error) {
	if len(b) < RecordHeaderBytes {
		return Record{}, 0, fmt.Errorf("%w: %d bytes are too few for a header", ErrBadRecord, len(b))
	}
	size := int(binary.LittleEndian.Uint32(b[4:]))
	valueLen := int(binary.LittleEndian.Uint32(b[40:]))
	keyLen := int(binary.LittleEndian.Uint16(b[44:]))
	if valueLen > MaxValueBytes || keyLen > MaxKeyBytes || size > len(b) ||
		size != align(RecordHeaderBytes+keyLen+valueLen, recordAlign) {
		return Record{}, 0, fmt.Errorf("%w: size %d, key %d, value %d in %d bytes", ErrBadRecord, size, keyLen, valueLen, len(b))
	}
	valueAt := RecordHeaderBytes + keyLen
	r := Record{
		Stamp: Stamp{
			Revision: int64(binary.LittleEndian.Uint64(b[8:])),
			Create:   int64(binary.LittleEndian.Uint64(b[16:])),
			Previous: int64(binary.LittleEndian.Uint64(b[24:])),
			Millis:   int64(binary.LittleEndian.Uint64(b[32:])),
		},
		Kind:  Kind(b[46]),
		Key:   string(b[RecordHeaderBytes:valueAt]),
		Value: b[valueAt : valueAt+valueLen : valueAt+valueLen],
	}
	return r, size, r.check()
}

// check refuses what the sequencer never writes.
func (r Record) check() error {
	creates := r.Kind == KindPut && r.Create == r.Revision && r.Previous == 0
	updates := r.Kind == KindPut && 0 < r.Create && r.Create <= r.Previous && r.Previous < r.Revision
	deletes := r.Kind == KindDelete && r.Create == 0 && 0 < r.Previous && r.Previous < r.Revision && len(r.Value) == 0
	if r.Revision <= 0 || !creates && !updates && !deletes {
		return fmt.Errorf("%w: kind %d, revision %d, create %d, previous %d",
			ErrBadRecord, r.Kind, r.Revision, r.Create, r.Previous)
	}
	if !ValidKey(r.Key) {
		return fmt.Errorf("%w: key %q", ErrBadRecord, r.Key)
	}
	return nil
}

// DecodeRecord is ParseRecord with the record's own checksum checked first.
func DecodeRecord(b []byte, seed uint32) (Record, int, error) {
	if len(b) < RecordHeaderBytes {
		return Record{}, 0, fmt.Errorf("%w: %d bytes are too few for a header", ErrBadRecord, len(b))
	}
	size := int(binary.LittleEndian.Uint32(b[4:]))
	if size < RecordHeaderBytes || size > len(b) {
		return Record{}, 0, fmt.Errorf("%w: size %d in %d bytes", ErrBadRecord, size, len(b))
	}
	if want, got := binary.LittleEndian.Uint32(b), crc32.Update(seed, castagnoli, b[4:size]); want != got {
		return Record{}, 0, fmt.Errorf("%w: checksum %08x, want %08x", ErrBadRecord, got, want)
	}
	return ParseRecord(b)
}

// ValidKey reports whether key is "<resource>/<rest>".
func ValidKey(key string) bool {
	return strings.IndexByte(key, '/') > 0
}
