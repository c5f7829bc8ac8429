package persist

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

const (
	// frameTarget is the size of a frame in bytes before compression. Larger frames
	// compress better; loading holds GOMAXPROCS of them in memory.
	frameTarget = 512 << 10
	// compressFrom is the smallest frame that is compressed, in bytes.
	compressFrom = 256
)

// errNothing means that there is no state to append to.
var errNothing = errors.New("the file holds no state")

// errOver means that the batch was committed or aborted.
var errOver = errors.New("the batch is over")

// Batch is a set of changes to a file. Commit adds all of them, Abort none. A file has at
// most one batch at a time, and each must be committed or aborted.
type Batch struct {
	f      *File
	to     Handle
	whole  bool // it replaces the whole file
	begin  int64
	origin uint32
	at     int64
	chain  uint32
	count  int           // records before at
	own    int           // records in raw
	raw    []byte        // the next frame
	out    []byte        // the same compressed
	zip    *zstd.Encoder // nil until it is needed
	err    error         // why nothing more can be added
}

// Append begins a batch of changes to the last state. It is an error if there is none; see
// Holds.
func (f *File) Append() (*Batch, error) {
	if !f.Holds() {
		return nil, errNothing
	}
	return &Batch{f: f, to: f.handle, begin: f.begin, origin: f.origin, at: f.end, chain: f.chain, count: f.records}, nil
}

// Rewrite begins a batch that replaces the file's whole content.
func (f *File) Rewrite() (*Batch, error) {
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	h := head{Source: f.id.Source, Shape: f.id.Shape, Salt: binary.LittleEndian.Uint64(salt[:])}
	header, chain, err := encodeHead(h)
	if err != nil {
		return nil, err
	}
	to, size, err := f.disk.Open(f.fresh())
	if err != nil {
		return nil, fmt.Errorf("begin a new file: %w", err)
	}
	b := &Batch{f: f, to: to, whole: true, begin: int64(len(header)), origin: chain, at: int64(len(header)), chain: chain}
	if size > 0 {
		err = to.Truncate(0)
	}
	if err == nil {
		_, err = to.WriteAt(header, 0)
	}
	if err != nil {
		b.Abort()
		return nil, fmt.Errorf("begin a new file: %w", err)
	}
	return b, nil
}

// Put adds an object's new state. The batch does not keep a reference to object.
func (b *Batch) Put(k handle.Key, object []byte) error {
	if len(object) == 0 || len(object)+len(k.Namespace)+len(k.Name) > maxRaw-frameTarget-64 {
		return fmt.Errorf("%s has %d bytes, which is empty or too large", k, len(object))
	}
	b.reserve()
	b.raw = appendPut(b.raw, k, object)
	return b.added()
}

// Delete adds the deletion of an object.
func (b *Batch) Delete(k handle.Key) error {
	b.reserve()
	b.raw = appendKey(b.raw, drop, k)
	return b.added()
}

// reserve leaves room for the frame's head.
func (b *Batch) reserve() {
	if len(b.raw) == 0 {
		b.raw = append(b.raw, make([]byte, frameBytes)...)
	}
}

func (b *Batch) added() error {
	b.own++
	if len(b.raw) < frameTarget {
		return b.err
	}
	return b.flush()
}

// flush writes the buffered records as a frame.
func (b *Batch) flush() error {
	if b.err != nil || b.own == 0 {
		return b.err
	}
	out, f := b.raw, frame{kind: records, raw: len(b.raw) - frameBytes, records: b.own}
	if len(b.raw) >= compressFrom {
		if b.err = b.prepare(); b.err != nil {
			return b.err
		}
		b.out = append(b.out[:0], make([]byte, frameBytes)...)
		b.out = b.zip.EncodeAll(b.raw[frameBytes:], b.out)
		if len(b.out) < len(b.raw) {
			out, f.kind = b.out, compressed
		}
	}
	b.write(out, f)
	b.count, b.own, b.raw = b.count+b.own, 0, b.raw[:0]
	return b.err
}

func (b *Batch) prepare() error {
	if b.zip != nil {
		return nil
	}
	var err error
	// The frame has its own checksum.
	b.zip, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(frameTarget), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	return err
}

// write writes a frame. frameOf is its payload after room for the head.
func (b *Batch) write(frameOf []byte, f frame) {
	f = seal(frameOf, f, b.chain)
	if _, b.err = b.to.WriteAt(frameOf, b.at); b.err != nil {
		b.err = fmt.Errorf("write %d bytes: %w", len(frameOf), b.err)
		return
	}
	b.at, b.chain = b.at+int64(len(frameOf)), f.crc
}

// Written returns the number of bytes that the batch has written so far.
func (b *Batch) Written() int64 {
	if b.whole {
		return b.at
	}
	return b.at - b.f.end
}

// Commit makes s and the added changes the state of the file. If it fails, the batch is
// aborted and the file keeps its last state.
func (b *Batch) Commit(s State) error {
	if b.flush() == nil {
		payload := encodeState(make([]byte, frameBytes, 256), s)
		if n := len(payload) - frameBytes; n > maxCommit {
			b.err = fmt.Errorf("positions of %d bytes", n)
		} else {
			b.write(payload, frame{kind: commit, raw: n})
		}
	}
	if b.err != nil {
		err := b.err
		b.Abort()
		return err
	}
	base := b.f.base
	if b.whole {
		if err := b.replace(); err != nil {
			return err
		}
		base = b.at
	}
	b.f.base, b.f.begin, b.f.origin, b.f.end, b.f.chain = base, b.begin, b.origin, b.at, b.chain
	b.f.records, b.f.state = b.count, s
	b.err = errOver
	return nil
}

// replace replaces the old file by the new one.
func (b *Batch) replace() error {
	err := b.to.Sync()
	if err != nil {
		b.Abort()
		return fmt.Errorf("sync the new file: %w", err)
	}
	f := b.f
	// Some systems cannot rename an open file.
	err = errors.Join(b.to.Close(), f.closeHandle())
	b.to = nil
	if err == nil {
		err = f.disk.Replace(f.fresh(), f.name)
	}
	if err != nil {
		b.Abort()
		return fmt.Errorf("replace the file: %w", err)
	}
	var size int64
	if f.handle, size, err = f.disk.Open(f.name); err == nil && size != b.at {
		err = damaged("it has %d bytes after %d were written", size, b.at)
	}
	if err != nil {
		f.end = 0
		b.err = errOver
		return errors.Join(fmt.Errorf("open the new file: %w", err), f.closeHandle())
	}
	return nil
}

// Abort drops the batch; the file keeps its last state. After Commit it does nothing.
func (b *Batch) Abort() {
	if errors.Is(b.err, errOver) {
		return
	}
	b.err = errOver
	if b.whole {
		if b.to != nil {
			_ = b.to.Close() // the file is not needed
		}
		_ = b.f.disk.Remove(b.f.fresh()) // if it fails, the next Rewrite truncates the file
		return
	}
	// If this fails, the frames that stay are not valid either: the next frame overwrites
	// their beginning, and the checksums after it are not seeded with that of the new frame.
	_ = b.to.Truncate(b.f.end)
}
