package persist

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// slack is the size in bytes below which a file is not rewritten.
	slack = 4 << 20
	// scanBytes is the size of the read buffer.
	scanBytes = 256 << 10
)

// ErrOther is wrapped by the Damage of a file that holds other objects than those of the
// identity.
var ErrOther = errors.New("the file holds other objects")

// Identity identifies the objects in a file.
type Identity struct {
	// Name is for people; the file's name begins with it.
	Name string
	// Source identifies the server and the collection. Each source has its own file in the
	// directory.
	Source string
	// Shape identifies the fields that are stored of each object; see [Shape]. A file with
	// another shape is not used.
	Shape string
}

// file returns the file's name. Its extension is explained in the package comment.
func (id Identity) file() string {
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, strings.ToLower(id.Name))
	sum := sha256.Sum256([]byte(id.Source))
	return strings.TrimLeft(readable[:min(len(readable), 64)], ".-") + "-" + hex.EncodeToString(sum[:8]) + ".warm"
}

// File is a log of states on a disk. One goroutine may use it at a time.
type File struct {
	disk Disk
	name string
	id   Identity
	lock io.Closer

	handle  Handle // nil: nothing can be appended
	begin   int64  // offset of the first frame
	origin  uint32 // the checksum that the first frame is seeded with
	base    int64  // end of the first commit, which holds a whole state
	end     int64  // end of the last commit; 0: there is none
	chain   uint32 // checksum of the last commit
	records int    // number of records before end
	state   State  // of the last commit
	damage  error
}

// Open locks the file of an identity in a directory, creates it if it does not exist, and
// finds its last commit. A file that is damaged or holds other objects is no error: see
// Damage. It is kept until Rewrite replaces it. Errors are those of the disk and ErrLocked.
func Open(disk Disk, id Identity) (*File, error) {
	f := &File{disk: disk, name: id.file(), id: id}
	var err error
	if f.lock, err = disk.Lock(f.name + ".lock"); err != nil {
		return nil, fmt.Errorf("lock the snapshot file of %s: %w", id.Name, err)
	}
	err = disk.Remove(f.fresh()) // left by a crash
	if err == nil {
		err = f.reopen()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the snapshot file of %s: %w", id.Name, err), f.Close())
	}
	return f, nil
}

// fresh returns the name of the file that Rewrite writes, before it replaces this one.
func (f *File) fresh() string { return f.name + ".new" }

// Holds reports whether the file has a state to load or to append to.
func (f *File) Holds() bool { return f.end > 0 && f.handle != nil }

// State returns the state of the last commit.
func (f *File) State() State { return f.state }

// Damage returns what Open found wrong with the file: it cannot be used, or its end was
// cut off. It returns nil for a sound file.
func (f *File) Damage() error { return f.damage }

// Size returns the length of the file up to its last commit, in bytes.
func (f *File) Size() int64 { return f.end }

// Stale reports whether the file should be rewritten: more than half of its records are
// superseded, or it has doubled since the last rewrite.
func (f *File) Stale() bool {
	return f.end > slack && (f.records > 2*f.state.Objects || f.end > 2*f.base+slack)
}

// Close closes and unlocks the file.
func (f *File) Close() error {
	err := f.closeHandle()
	if f.lock != nil {
		err = errors.Join(err, f.lock.Close())
	}
	f.lock = nil
	return err
}

func (f *File) closeHandle() error {
	if f.handle == nil {
		return nil
	}
	err := f.handle.Close()
	f.handle = nil
	return err
}

// reopen opens the file and finds the last commit. It returns errors of the disk only.
func (f *File) reopen() error {
	handle, size, err := f.disk.Open(f.name)
	if err != nil {
		return err
	}
	f.handle, f.end, f.state, f.records = handle, 0, State{}, 0
	if size == 0 {
		return nil // Open created it
	}
	if err := f.scan(size); err != nil {
		f.damage = err
	}
	if f.end > 0 && f.end < size {
		f.damage = fmt.Errorf("%w: %d bytes after the last commit were cut off (%w)", ErrDamaged, size-f.end, f.damage)
		return f.handle.Truncate(f.end)
	}
	return nil
}

// errTorn means that the file ends before a commit.
var errTorn = errors.New("it ends before a commit")

// scan finds the last commit. Its error says what is wrong after that commit.
func (f *File) scan(size int64) error {
	in := bufio.NewReaderSize(io.NewSectionReader(f.handle, 0, size), scanBytes)
	if err := f.readHead(in, size); err != nil {
		return err
	}
	at, chain, n := f.begin, f.origin, 0
	for at < size {
		next, err := readFrame(in, chain, size-at)
		if err != nil {
			return err
		}
		at, chain, n = at+int64(frameBytes+next.bytes), next.crc, n+next.records
		if next.kind != commit {
			continue
		}
		state, err := decodeState(next.payload)
		if err != nil {
			return err
		}
		if f.end == 0 {
			f.base = at
		}
		f.end, f.chain, f.records, f.state = at, chain, n, state
	}
	if at > f.end {
		return errTorn
	}
	return nil
}

// readHead reads the header and compares it with the identity.
func (f *File) readHead(in io.Reader, size int64) error {
	b := make([]byte, headerBytes)
	if _, err := io.ReadFull(in, b); err != nil {
		return damaged("the header: %v", err)
	}
	n, err := headLength(b)
	if err != nil {
		return err
	}
	if int64(headerBytes+n) > size {
		return damaged("a header of %d bytes in a file of %d", n, size)
	}
	b = slices.Concat(b, make([]byte, n))
	if _, err := io.ReadFull(in, b[headerBytes:]); err != nil {
		return damaged("the header: %v", err)
	}
	h, chain, err := decodeHead(b)
	switch {
	case err != nil:
		return err
	case h.Source != f.id.Source:
		return fmt.Errorf("%w: from %s, not %s", ErrOther, h.Source, f.id.Source)
	case h.Shape != f.id.Shape:
		return fmt.Errorf("%w: of shape %s, not %s", ErrOther, h.Shape, f.id.Shape)
	}
	f.begin, f.origin = int64(len(b)), chain
	return nil
}

// whole is a frame and, if it is a commit, its payload.
type whole struct {
	frame

	payload []byte
}

// readFrame reads a frame and checks it, and keeps the payload if it is a commit.
func readFrame(in *bufio.Reader, chain uint32, left int64) (whole, error) {
	w, crc, err := readFrameHead(in, chain, left)
	if err != nil {
		return w, err
	}
	if w.kind == commit {
		w.payload = make([]byte, 0, w.bytes)
	}
	for todo := w.bytes; todo > 0; {
		b, err := in.Peek(min(todo, scanBytes))
		if err != nil {
			return w, damaged("a frame: %v", err)
		}
		crc = checksum(crc, b)
		if w.kind == commit {
			w.payload = append(w.payload, b...)
		}
		n, err := in.Discard(len(b))
		if err != nil {
			return w, damaged("a frame: %v", err)
		}
		todo -= n
	}
	return w, w.check(crc)
}

// readFrameHead reads a frame up to its payload, and returns the checksum so far.
func readFrameHead(in io.Reader, chain uint32, left int64) (w whole, crc uint32, err error) {
	var b [frameBytes]byte
	if left < frameBytes {
		return w, 0, errTorn
	}
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return w, 0, damaged("a frame: %v", err)
	}
	if w.frame, err = headOf(b[:]); err != nil {
		return w, 0, err
	}
	if int64(frameBytes+w.bytes) > left {
		return w, 0, errTorn
	}
	return w, checksum(chain, b[4:]), nil
}

func (f frame) check(crc uint32) error {
	if f.crc != crc {
		return damaged("a frame has the wrong checksum")
	}
	return nil
}
