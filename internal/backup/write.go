package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
)

// writer writes a file. Nothing is written after its first error, which every later call returns.
type writer struct {
	to     io.Writer
	sum    hash.Hash
	blocks uint32
	kind   byte
	count  uint32
	block  []byte // the block that is filled, with its header
	err    error

	summary    Summary
	encryption map[string]bool
	// encryptionOf returns the beginning of an encrypted value, "" for any other.
	encryptionOf func(value []byte) string
}

// newWriter begins a file with its header.
func newWriter(to io.Writer, h Header, encryptionOf func([]byte) string) (*writer, error) {
	w := begin(to)
	w.encryptionOf = encryptionOf
	w.document(kindHeader, h)
	return w, w.err
}

// begin begins a file.
func begin(to io.Writer) *writer {
	w := &writer{
		to: to, sum: sha256.New(), block: newBlock(), summary: Summary{Resources: map[string]int64{}},
		encryption: map[string]bool{},
	}
	w.write(binary.LittleEndian.AppendUint32([]byte(magic), formatVersion))
	return w
}

// newBlock returns memory for a block of the usual size.
func newBlock() []byte { return make([]byte, blockHeaderBytes, blockBytes+4<<10) }

// put adds a record: first all live ones, then all that are ended.
func (w *writer) put(r Record) error {
	kind := byte(kindLive)
	if r.Until != 0 {
		kind = kindEnded
		w.summary.Versions++
	} else {
		w.summary.Objects++
		resource, _, _ := strings.Cut(r.Key, "/")
		w.summary.Resources[resource]++
	}
	if w.encryptionOf != nil {
		if name := w.encryptionOf(r.Value); name != "" {
			w.encryption[name] = true
		}
	}
	if kind != w.kind || len(w.block) >= blockBytes {
		w.flush()
	}
	w.kind = kind
	w.count++
	w.block = appendRecord(w.block, r)
	return w.err
}

// finish completes the file.
func (w *writer) finish() (Summary, error) {
	w.summary.Encryption = slices.Sorted(maps.Keys(w.encryption))
	w.flush()
	w.document(kindSummary, w.summary)
	if w.err == nil {
		w.write(w.sum.Sum(nil))
	}
	return w.summary, w.err
}

// document writes a block of JSON.
func (w *writer) document(kind byte, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		w.err = err
		return
	}
	w.kind, w.count, w.block = kind, 1, append(w.block, body...)
	w.flush()
}

// flush writes the block that is filled.
func (w *writer) flush() {
	if w.count == 0 {
		return
	}
	head := w.block[:blockHeaderBytes]
	binary.LittleEndian.PutUint32(head, uint32(len(w.block)-blockHeaderBytes)) //nolint:gosec // less than maxBlockBytes
	binary.LittleEndian.PutUint32(head[4:], w.count)
	binary.LittleEndian.PutUint32(head[8:], uint32(w.kind))
	binary.LittleEndian.PutUint32(head[12:], blockSum(w.blocks, head, w.block[blockHeaderBytes:]))
	w.write(w.block)
	w.blocks++
	w.count, w.block = 0, w.block[:blockHeaderBytes]
	if cap(w.block) > 4*blockBytes { // the next one has no such large object
		w.block = newBlock()
	}
}

func (w *writer) write(b []byte) {
	if w.err != nil {
		return
	}
	w.sum.Write(b)
	if _, err := w.to.Write(b); err != nil {
		w.err = fmt.Errorf("write the backup: %w", err)
	}
}

// blockSum is the checksum of a block, of which head are the first bytes.
func blockSum(number uint32, head, payload []byte) uint32 {
	var seed [4]byte
	binary.LittleEndian.PutUint32(seed[:], number)
	sum := crc32.Update(crc32.Checksum(seed[:], castagnoli), castagnoli, head[:12])
	return crc32.Update(sum, castagnoli, payload)
}
