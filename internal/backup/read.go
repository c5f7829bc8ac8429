package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"strings"
)

// Reader reads a file and checks it. What Next returns counts only after Next has returned io.EOF:
// before that the rest of the file may be missing. It is used by one goroutine at a time.
type Reader struct {
	from   *bufio.Reader
	sum    hash.Hash
	offset int64
	blocks uint32
	block  []byte
	found  Summary // of the records that were read

	header  Header
	summary *Summary // nil until the end was read
	digest  []byte
	lastKey string // of the live records
	last    int64  // Until of the ended records
}

// NewReader reads the beginning of a file. Errors: *DamagedError, *NewerError, those of r.
func NewReader(r io.Reader) (*Reader, error) {
	b := &Reader{
		from: bufio.NewReaderSize(r, blockBytes), sum: sha256.New(), found: Summary{Resources: map[string]int64{}},
	}
	start := make([]byte, len(magic)+4)
	if err := b.read(start); err != nil {
		return nil, err
	}
	if string(start[:len(magic)]) != magic {
		return nil, &DamagedError{Found: fmt.Sprintf("it begins with %q: it is not a backup of gapless", start[:len(magic)])}
	}
	if version := binary.LittleEndian.Uint32(start[len(magic):]); version != formatVersion {
		if version > formatVersion {
			return nil, &NewerError{Version: version}
		}
		return nil, b.damaged("format %d", version)
	}
	kind, _, err := b.readBlock()
	if err != nil {
		return nil, err
	}
	if kind != kindHeader {
		return nil, b.damaged("there is a block %q where the header is expected", kind)
	}
	if err := json.Unmarshal(b.block, &b.header); err != nil {
		return nil, b.damaged("the header: %v", err)
	}
	if h := b.header; h.Revision < 1 || h.Since < 0 || h.Since > h.Revision || !h.History && h.Since != h.Revision {
		return nil, b.damaged("the header says resourceVersion %d, history since %d", h.Revision, h.Since)
	}
	return b, nil
}

// Header returns the beginning of the file.
func (b *Reader) Header() Header { return b.header }

// Summary returns the end of the file, and its checksum, after Next has returned io.EOF.
func (b *Reader) Summary() (Summary, []byte) {
	if b.summary == nil {
		return Summary{}, nil
	}
	return *b.summary, b.digest
}

// Offset returns how many bytes were read, and how many records.
func (b *Reader) Offset() (bytes, records int64) { return b.offset, b.found.Objects + b.found.Versions }

// Next returns the next records, which are valid until it is called again. io.EOF says that all
// were returned, and that the file is whole. Errors: *DamagedError, those of the file.
func (b *Reader) Next() ([]Record, error) {
	if b.summary != nil {
		return nil, io.EOF
	}
	kind, count, err := b.readBlock()
	if err != nil {
		return nil, err
	}
	switch {
	case kind == kindSummary:
		return nil, b.end()
	case kind == kindLive && b.found.Versions == 0:
	case kind == kindEnded && b.header.History:
	default:
		return nil, b.damaged("there is a block %q where none is expected", kind)
	}
	records := make([]Record, 0, min(int(count), len(b.block)/8)) // a record has at least 8 bytes
	for rest := b.block; len(rest) > 0; {
		var r Record
		if r, rest, err = parseRecord(rest); err != nil {
			return nil, b.damaged("%v", err)
		}
		if err := b.take(kind, r); err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	if len(records) != int(count) {
		return nil, b.damaged("a block has %d records, and says %d", len(records), count)
	}
	return records, nil
}

// take counts a record, and compares it with what can be in its place.
func (b *Reader) take(kind byte, r Record) error {
	wrong := r.Revision > b.header.Revision || (r.Until != 0) != (kind == kindEnded)
	if kind == kindLive {
		wrong = wrong || r.Key <= b.lastKey
		b.lastKey = r.Key
		b.found.Objects++
		resource, _, _ := strings.Cut(r.Key, "/")
		b.found.Resources[resource]++
	} else {
		wrong = wrong || r.Until <= b.last || r.Until <= b.header.Since || r.Until > b.header.Revision
		b.last = r.Until
		b.found.Versions++
	}
	if wrong {
		return b.damaged("the record of %q at revision %d is not in its place", r.Key, r.Revision)
	}
	return nil
}

// end reads what follows the records. It returns io.EOF.
func (b *Reader) end() error {
	var s Summary
	if err := json.Unmarshal(b.block, &s); err != nil {
		return b.damaged("the summary: %v", err)
	}
	if s.Objects != b.found.Objects || s.Versions != b.found.Versions || !maps.Equal(s.Resources, b.found.Resources) {
		return b.damaged("%d objects and %d versions were read, and the summary says %d and %d",
			b.found.Objects, b.found.Versions, s.Objects, s.Versions)
	}
	want := b.sum.Sum(nil)
	got := make([]byte, len(want))
	if err := b.read(got); err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return b.damaged("the checksum of the file is %x, and it says %x", want, got)
	}
	switch _, err := b.from.ReadByte(); {
	case err == nil:
		return b.damaged("there is more behind the end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read the backup: %w", err)
	}
	b.summary, b.digest = &s, want
	return io.EOF
}

// readBlock reads a block into b.block and checks it.
func (b *Reader) readBlock() (kind byte, count uint32, err error) {
	head := make([]byte, blockHeaderBytes)
	if err := b.read(head); err != nil {
		return 0, 0, err
	}
	size := binary.LittleEndian.Uint32(head)
	if size > maxBlockBytes {
		return 0, 0, b.damaged("a block of %d bytes", size)
	}
	if uint32(cap(b.block)) < size {
		b.block = make([]byte, size)
	}
	b.block = b.block[:size]
	if err := b.read(b.block); err != nil {
		return 0, 0, err
	}
	want := binary.LittleEndian.Uint32(head[12:])
	if got := blockSum(b.blocks, head, b.block); got != want {
		return 0, 0, b.damaged("the checksum of a block is %08x, and it says %08x", got, want)
	}
	b.blocks++
	count = binary.LittleEndian.Uint32(head[4:])
	if kind = head[8]; (kind == kindHeader || kind == kindSummary) && count != 1 || count == 0 || head[9]|head[10]|head[11] != 0 {
		return 0, 0, b.damaged("a block %q of %d records", kind, count)
	}
	return kind, count, nil
}

// read fills p. The end of the file is damage.
func (b *Reader) read(p []byte) error {
	n, err := io.ReadFull(b.from, p)
	b.offset += int64(n)
	b.sum.Write(p[:n])
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return b.damaged("it ends here, and is not complete")
	case err != nil:
		return fmt.Errorf("read the backup: %w", err)
	}
	return nil
}

func (b *Reader) damaged(found string, args ...any) error {
	return &DamagedError{Offset: b.offset, Found: fmt.Sprintf(found, args...)}
}
