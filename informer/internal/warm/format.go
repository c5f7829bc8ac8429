package warm

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
)

const (
	magic       = "gapwarm1"
	headerBytes = len(magic) + 8
	frameBytes  = 20

	// maxHeader and maxCommit bound what is believed of a length before its checksum
	// is known; maxRaw bounds what one frame unpacks to, and so how large an object
	// can be. etcd takes 1.5 MiB (--max-request-bytes).
	maxHeader = 1 << 20
	maxCommit = 4 << 20
	maxRaw    = 64 << 20
)

// ErrDamaged is wrapped by the errors of bytes that are none of this format.
var ErrDamaged = errors.New("the file is damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// kind is what a frame holds.
type kind uint32

const (
	records kind = iota + 1
	packed       // records, compressed with zstd
	commit
)

// frame is the head of a frame.
type frame struct {
	crc     uint32
	bytes   int // of the payload, on disk
	raw     int // of the payload, unpacked
	records int
	kind    kind
}

func checksum(seed uint32, b []byte) uint32 {
	return crc32.Update(seed, crc32.MakeTable(crc32.Castagnoli), b)
}

// seal completes the head of a frame: b begins with room for it, and the payload
// follows.
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

// headOf reads the head of a frame; whether it is one, only its checksum says.
func headOf(b []byte) (frame, error) {
	f := frame{crc: binary.LittleEndian.Uint32(b), kind: kind(binary.LittleEndian.Uint32(b[16:]))}
	bytes, raw, n := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if raw > maxRaw || bytes > raw || n > raw {
		return f, damaged("a frame of %d bytes for %d with %d records", bytes, raw, n)
	}
	f.bytes, f.raw, f.records = int(bytes), int(raw), int(n)
	switch f.kind {
	case packed:
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
	// Source says what the objects are, Shape how they are kept.
	Source string `json:"source"`
	Shape  string `json:"shape"`
	// Salt is another one in each file, so that no frame fits into two.
	Salt uint64 `json:"salt"`
}

// encodeHead returns the header's bytes and where the chain of checksums begins.
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

// decodeHead reads the header, of which b is all.
func decodeHead(b []byte) (h head, chain uint32, err error) {
	chain = checksum(0, b[len(magic)+4:])
	if binary.LittleEndian.Uint32(b[len(magic):]) != chain {
		return h, 0, damaged("the header's checksum is another")
	}
	if err := json.Unmarshal(b[headerBytes:], &h); err != nil {
		return h, 0, damaged("the header: %v", err)
	}
	return h, chain, nil
}

// State is what belongs to the objects of one moment.
type State struct {
	// Positions are the resource versions up to which the objects are current, by
	// part of the cache; a cache of one part calls it "".
	Positions map[string]string
	// At is when the state was written, in milliseconds.
	At time.Time
	// Objects is how many there are.
	Objects int
	// Unread is how many objects had a newer state that could not be read: the
	// positions are beyond it, so a watch from there would never bring it again.
	Unread int
}

func encodeState(b []byte, s State) []byte {
	b = binary.AppendUvarint(b, uint64(max(s.At.UnixMilli(), 0))) //nolint:gosec // not negative
	b = binary.AppendUvarint(b, uint64(s.Objects))                //nolint:gosec // a count
	b = binary.AppendUvarint(b, uint64(s.Unread))                 //nolint:gosec // a count
	b = binary.AppendUvarint(b, uint64(len(s.Positions)))
	for _, part := range slices.Sorted(maps.Keys(s.Positions)) {
		b = appendText(b, part)
		b = appendText(b, s.Positions[part])
	}
	return b
}

func decodeState(b []byte) (State, error) {
	r := reader{b: b}
	s := State{At: time.UnixMilli(int64(min(r.number(), math.MaxInt64)))} //nolint:gosec // bounded
	s.Objects, s.Unread = r.count(), r.count()
	n := r.count()
	if n > len(r.b) {
		return State{}, damaged("a commit of %d parts in %d bytes", n, len(b))
	}
	s.Positions = make(map[string]string, n)
	for range n {
		part := string(r.text())
		s.Positions[part] = string(r.text())
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

func appendPut(b []byte, k Key, object []byte) []byte {
	return appendText(appendKey(b, put, k), object)
}

func appendKey(b []byte, what byte, k Key) []byte {
	return appendText(appendText(append(b, what), k.Namespace), k.Name)
}

// reader reads what the functions above wrote. Once bad, it reads nothing.
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

// count is a number that fits into 32 bits.
func (r *reader) count() int {
	n := r.number()
	if n > math.MaxInt32 {
		r.b, r.bad = nil, true
		return 0
	}
	return int(n)
}

// text aliases what is read.
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

// record reads one record; object is nil for a deletion, and aliases what is read.
func (r *reader) record() (k Key, object []byte, err error) {
	what := r.b[0]
	r.b = r.b[1:]
	k = Key{Namespace: string(r.text()), Name: string(r.text())}
	if what == put {
		object = r.text()
	}
	if r.bad || what != put && what != drop || what == put && len(object) == 0 || k.Name == "" {
		return k, nil, damaged("a record of kind %d cannot be read", what)
	}
	return k, object, nil
}
