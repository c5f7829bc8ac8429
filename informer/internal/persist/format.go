package persist

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

const (
	magic       = "gapwarm1" // see the package comment for its name
	headerBytes = len(magic) + 8
	frameBytes  = 20

	// maxHeader and maxCommit bound the lengths that are accepted before the checksum is
	// verified. maxRaw bounds the decompressed size of a frame, and so the size of an
	// object. etcd accepts 1.5 MiB (--max-request-bytes).
	maxHeader = 1 << 20
	maxCommit = 4 << 20
	maxRaw    = 64 << 20
)

// ErrDamaged is wrapped by the error of a file that is not in this format.
var ErrDamaged = errors.New("the file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// kind is the content of a frame.
type kind uint32

const (
	records    kind = iota + 1
	compressed      // records, compressed with zstd
	commit
)

// frame is the head of a frame.
type frame struct {
	crc     uint32
	bytes   int // of the payload, on disk
	raw     int // of the payload, decompressed
	records int
	kind    kind
}

func checksum(seed uint32, b []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), b)
}

// seal writes the head of a frame into b, which has room for it before the payload.
func seal(b []byte, f frame, chain uint32) frame {
	f.bytes = len(b) - frameBytes
	binary.LittleEndian.PutUint32(b[4:], uint32(f.bytes))    //nolint:gosec // bounded by maxRaw
	binary.LittleEndian.PutUint32(b[8:], uint32(f.raw))      //nolint:gosec // bounded by maxRaw
	binary.LittleEndian.PutUint32(b[12:], uint32(f.records)) //nolint:gosec // each has a byte or more
	binary.LittleEndian.PutUint32(b[16:], uint32(f.kind))
	f.crc = checksum(chain, b[4:])
	binary.LittleEndian.PutUint32(b, f.crc)
	return f
}

// headOf reads the head of a frame. The caller verifies its checksum.
func headOf(b []byte) (frame, error) {
	f := frame{crc: binary.LittleEndian.Uint32(b), kind: kind(binary.LittleEndian.Uint32(b[16:]))}
	bytes, raw, n := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if raw > maxRaw || bytes > raw || n > raw {
		return f, damaged("a frame of %d bytes for %d with %d records", bytes, raw, n)
	}
	f.bytes, f.raw, f.records = int(bytes), int(raw), int(n)
	switch f.kind {
	case compressed:
	case records:
		if bytes != raw {
			return f, damaged("a frame of %d bytes for %d", bytes, raw)
		}
	case commit:
		if bytes != raw || raw > maxCommit || n != 0 {
			return f, damaged("a commit of %d bytes", bytes)
		}
	default:
		return f, damaged("a frame of kind %d", f.kind)
	}
	return f, nil
}

// head is the header of a file.
type head struct {
	// Source and Shape are those of the Identity.
	Source string `json:"source"`
	Shape  string `json:"shape"`
	// Salt is random, so that a frame of one file is never valid in another.
	Salt uint64 `json:"salt"`
}

// encodeHead returns the header's bytes and its checksum, which seeds that of the first
// frame.
func encodeHead(h head) ([]byte, uint32, error) {
	body, err := json.Marshal(h)
	if err != nil {
		return nil, 0, fmt.Errorf("encode the header: %w", err)
	}
	if len(body) > maxHeader {
		return nil, 0, fmt.Errorf("encode the header: it has %d bytes", len(body))
	}
	b := append(make([]byte, headerBytes, headerBytes+len(body)), body...)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[len(magic)+4:], uint32(len(body))) //nolint:gosec // bounded by maxHeader
	crc := checksum(0, b[len(magic)+4:])
	binary.LittleEndian.PutUint32(b[len(magic):], crc)
	return b, crc, nil
}

// headLength returns the length of the header's JSON; b has headerBytes.
func headLength(b []byte) (int, error) {
	if string(b[:len(magic)]) != magic {
		return 0, damaged("it begins with %q", b[:len(magic)])
	}
	n := binary.LittleEndian.Uint32(b[len(magic)+4:])
	if n > maxHeader {
		return 0, damaged("a header of %d bytes", n)
	}
	return int(n), nil
}

// decodeHead reads the header; b is the whole of it.
func decodeHead(b []byte) (h head, chain uint32, err error) {
	chain = checksum(0, b[len(magic)+4:])
	if binary.LittleEndian.Uint32(b[len(magic):]) != chain {
		return h, 0, damaged("the header has the wrong checksum")
	}
	if err := json.Unmarshal(b[headerBytes:], &h); err != nil {
		return h, 0, damaged("the header: %v", err)
	}
	return h, chain, nil
}

// State describes a committed state of the objects.
type State struct {
	// Positions are the resource versions of the state, by namespace; "" for a cache that
	// reads all namespaces with one watch.
	Positions map[string]string
	// At is when the state was written, in milliseconds.
	At time.Time
	// Objects is the number of objects.
	Objects int
	// Unread is the number of objects whose newest state could not be decoded. A watch from
	// Positions would not send it again.
	Unread int
}

func encodeState(b []byte, s State) []byte {
	b = binary.AppendUvarint(b, uint64(max(s.At.UnixMilli(), 0))) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(s.Objects))                //nolint:gosec // a count
	b = binary.AppendUvarint(b, uint64(s.Unread))                 //nolint:gosec // a count
	b = binary.AppendUvarint(b, uint64(len(s.Positions)))
	for _, namespace := range slices.Sorted(maps.Keys(s.Positions)) {
		b = appendText(b, namespace)
		b = appendText(b, s.Positions[namespace])
	}
	return b
}

func decodeState(b []byte) (State, error) {
	r := reader{b: b}
	s := State{At: time.UnixMilli(int64(min(r.number(), math.MaxInt64)))} //nolint:gosec // bounded
	s.Objects, s.Unread = r.count(), r.count()
	n := r.count()
	if n > len(r.b) {
		return State{}, damaged("a commit of %d namespaces in %d bytes", n, len(b))
	}
	s.Positions = make(map[string]string, n)
	for range n {
		namespace := string(r.text())
		s.Positions[namespace] = string(r.text())
	}
	if r.bad || len(r.b) > 0 || len(s.Positions) != n {
		return State{}, damaged("a commit of %d bytes cannot be read", len(b))
	}
	return s, nil
}

const (
	put byte = iota + 1
	drop
)

func appendText[B ~string | ~[]byte](b []byte, text B) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendPut(b []byte, k handle.Key, object []byte) []byte {
	return appendText(appendKey(b, put, k), object)
}

func appendKey(b []byte, what byte, k handle.Key) []byte {
	return appendText(appendText(append(b, what), k.Namespace), k.Name)
}

// reader reads numbers, texts and records. After an error bad is true and it reads nothing.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[size:]
	return n
}

// count reads a number that fits into 32 bits.
func (r *reader) count() int {
	n := r.number()
	if n > math.MaxInt32 {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

// text reads a text. The result aliases the input.
func (r *reader) text() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	text := r.b[:n:n]
	r.b = r.b[n:]
	return text
}

// record reads one record. object aliases the input and is nil for a deletion.
func (r *reader) record() (k handle.Key, object []byte, err error) {
	what := r.b[0]
	r.b = r.b[1:]
	k = handle.Key{Namespace: string(r.text()), Name: string(r.text())}
	if what == put {
		object = r.text()
	}
	if r.bad || what != put && what != drop || what == put && len(object) == 0 || k.Name == "" {
		return k, nil, damaged("a record of kind %d cannot be read", what)
	}
	return k, object, nil
}
