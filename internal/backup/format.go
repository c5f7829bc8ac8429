// Package backup writes the objects of a server to one file, checks such a file, and makes a new
// data directory of it.
//
// [Take] reads a store at one revision, while it is in use, and writes the file. A [Reader] reads a
// file and checks every byte of it. [Restore] makes the log of a data directory of what a Reader
// returns. The file is
//
//	magic    8 bytes
//	version  u32, little endian as all numbers
//	blocks   the Header, Records, the Summary
//	sum      32 bytes, SHA-256 of all before
//
// and a block is
//
//	 0 size   u32  length of the payload
//	 4 count  u32  number of records; 1 for a header and a summary
//	 8 kind   u8   'h' header, 'l' live records, 'e' ended records, 's' summary
//	 9 0      3 bytes
//	12 crc    u32  crc32c of these 12 bytes and the payload, seeded with the number of the block
//	16 payload     JSON of the header and the summary, or records
//
// A live record is what a key held at the revision of the backup; they are in the order of their
// keys. An ended record is a version that was replaced or deleted before; they are in the order in
// which that happened. So the state at each revision of the history can be restored in one pass.
package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"
)

const (
	magic = "gaplbkup"
	// formatVersion is that of the files that are written. A reader refuses later ones.
	formatVersion = 1

	blockHeaderBytes = 16
	// blockBytes is where a block ends.
	blockBytes = 256 << 10
	// maxBlockBytes is more than the largest block has: one with a record of the largest size
	// behind others.
	maxBlockBytes = 16 << 20
)

// The kinds of blocks.
const (
	kindHeader  = 'h'
	kindLive    = 'l'
	kindEnded   = 'e'
	kindSummary = 's'
)

// The flags of a record.
const (
	flagEnded   = 1
	flagDeleted = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli) //nolint:gochecknoglobals // a compiled table

// Header is the beginning of a file.
type Header struct {
	// Revision is the resourceVersion at which the backup was made.
	Revision int64 `json:"resourceVersion,string"`
	// Made is when it was made, by the clock of the server.
	Made time.Time `json:"made"`
	// Server is the version of the program that has made it.
	Server string `json:"server,omitempty"`
	// History says that the file has the versions that were replaced or deleted, too.
	History bool `json:"history"`
	// Since is the revision from which on the history is complete; Revision without History.
	Since int64 `json:"since,string"`
	// SinceTime is when Since was written; zero if the history goes back to the first write.
	SinceTime time.Time `json:"sinceTime,omitzero"`
	// Expected is about how many live objects there are, to show progress.
	Expected int64 `json:"expected"`
}

// Summary is the end of a file.
type Summary struct {
	Objects   int64            `json:"objects"`             // live ones
	Resources map[string]int64 `json:"resources,omitempty"` // live objects by resource
	Versions  int64            `json:"versions"`            // that were replaced or deleted
	// Encryption are the beginnings of values that are encrypted, up to the names of their keys. The
	// keys are needed to read them.
	Encryption []string `json:"encryption,omitempty"`
}

// Record is one version of one key. Value of a record that was read is valid until the next block
// is read.
type Record struct {
	Key      string
	Value    []byte
	Revision int64 // the one that wrote it
	Create   int64 // the one that created the key
	Millis   int64 // when it was written
	// Until is the revision that replaced or deleted it; 0 for a live record. UntilMillis is when
	// that was written, Deleted that it was a deletion.
	Until       int64
	UntilMillis int64
	Deleted     bool
}

// DamagedError says that a file is not what was written.
type DamagedError struct {
	Offset int64 // where it was found, in bytes
	Found  string
}

// Error says what was found and where.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("the backup is damaged at byte %d: %s", e.Offset, e.Found)
}

// NewerError says that a later version of this program has written a file.
type NewerError struct{ Version uint32 }

// Error says what to do.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the backup has format %d, and this version of gapless reads format %d: use the version that made it",
		e.Version, formatVersion)
}

// appendRecord appends the bytes of a record.
func appendRecord(b []byte, r Record) []byte {
	flags := byte(0)
	if r.Until != 0 {
		flags |= flagEnded
	}
	if r.Deleted {
		flags |= flagDeleted
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(r.Revision))
	b = binary.AppendUvarint(b, uint64(r.Create))
	b = binary.AppendVarint(b, r.Millis)
	if r.Until != 0 {
		b = binary.AppendUvarint(b, uint64(r.Until))
		b = binary.AppendVarint(b, r.UntilMillis)
	}
	b = binary.AppendUvarint(b, uint64(len(r.Key)))
	b = append(b, r.Key...)
	b = binary.AppendUvarint(b, uint64(len(r.Value)))
	return append(b, r.Value...)
}

// errShort says that a record has fewer bytes than it says.
var errShort = errors.New("a record is cut off")

// fields reads the fields of a record.
type fields struct {
	rest []byte
	err  error
}

func (f *fields) byte() byte {
	if len(f.rest) == 0 {
		f.err = errShort
		return 0
	}
	b := f.rest[0]
	f.rest = f.rest[1:]
	return b
}

// number reads a revision or a length.
func (f *fields) number() int64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 || int64(n) < 0 {
		f.err, f.rest = errShort, nil
		return 0
	}
	f.rest = f.rest[size:]
	return int64(n)
}

func (f *fields) millis() int64 {
	n, size := binary.Varint(f.rest)
	if size <= 0 {
		f.err, f.rest = errShort, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) bytes() []byte {
	n := f.number()
	if n > int64(len(f.rest)) {
		f.err, f.rest = errShort, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

// parseRecord reads the record at the start of b and returns what follows it.
func parseRecord(b []byte) (r Record, rest []byte, err error) {
	f := fields{rest: b}
	flags := f.byte()
	r.Revision, r.Create, r.Millis = f.number(), f.number(), f.millis()
	if flags&flagEnded != 0 {
		r.Until, r.UntilMillis = f.number(), f.millis()
	}
	r.Key = string(f.bytes())
	r.Value = f.bytes()
	r.Deleted = flags&flagDeleted != 0
	switch {
	case f.err != nil:
		return Record{}, nil, f.err
	case flags&^(flagEnded|flagDeleted) != 0,
		r.Create < 1 || r.Revision < r.Create,
		flags&flagEnded != 0 && r.Until <= r.Revision,
		flags&flagEnded == 0 && r.Deleted,
		strings.IndexByte(r.Key, '/') < 1:
		return Record{}, nil, fmt.Errorf("there is no such record: %q at revision %d, created at %d, until %d",
			r.Key, r.Revision, r.Create, r.Until)
	}
	return r, f.rest, nil
}
