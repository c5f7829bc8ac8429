package warm

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
	// slack is how large a file may be however little of it is still true.
	slack = 4 << 20
	// scanBytes is how much is read in one go where nothing needs to be kept.
	scanBytes = 256 << 10
)

// ErrOther is wrapped by what Trouble says of a file whose objects are not those of
// the identity.
var ErrOther = errors.New("the file holds other objects")

// Identity is what the objects in a file are.
type Identity struct {
	// Name is for people; the file's name begins with it.
	Name string
	// Source says where the objects come from and which they are. Each has a file of
	// its own in the directory.
	Source string
	// Shape says what is kept of each object. A file with another shape is not used.
	Shape string
}

// file returns the file's name.
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

// File is a log of states on a disk. It belongs to one goroutine.
type File struct {
	disk Disk
	name string
	id   Identity
	lock io.Closer

	handle  Handle // nil: nothing that could be appended to
	begin   int64  // of the frames
	origin  uint32 // the checksum that the first frame is seeded with
	base    int64  // the end of the first commit: the state that was written whole
	end     int64  // of the last commit; 0: there is none
	chain   uint32 // its checksum
	records int    // up to there
	state   State
	trouble error
}

// Open locks the file of that identity in a directory and looks for the last whole
// state in it. A file that is damaged or holds other objects is left as it is until
// a whole new state takes its place; Trouble says so. Errors are those of the disk,
// and ErrLocked.
func Open(disk Disk, id Identity) (*File, error) {
	f := &File{disk: disk, name: id.file(), id: id}
	var err error
	if f.lock, err = disk.Lock(f.name + ".lock"); err != nil {
		return nil, fmt.Errorf("lock the warm start of %s: %w", id.Name, err)
	}
	err = disk.Remove(f.fresh()) // of a program that crashed while it wrote it
	if err == nil {
		err = f.reopen()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the warm start of %s: %w", id.Name, err), f.Close())
	}
	return f, nil
}

// fresh is the name of a file that is to replace this one.
func (f *File) fresh() string { return f.name + ".new" }

// Holds says that there is a state to load or to change.
func (f *File) Holds() bool { return f.end > 0 && f.handle != nil }

// State is what belongs to the objects in the file: of the last commit.
func (f *File) State() State { return f.state }

// Trouble says what Open found wrong with the file: that it is of no use, or that
// its end was cut off; nil: nothing.
func (f *File) Trouble() error { return f.trouble }

// Size is the length of what counts in the file, in bytes.
func (f *File) Size() int64 { return f.end }

// Stale says that a whole new state would be smaller: more records are superseded
// than true, or the file has doubled since one was written.
func (f *File) Stale() bool {
	return f.end > slack && (f.records > 2*f.state.Objects || f.end > 2*f.base+slack)
}

// Close gives the file back.
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

// reopen opens the file and finds the last commit. Only the disk's errors are errors.
func (f *File) reopen() error {
	handle, size, err := f.disk.Open(f.name)
	if err != nil {
		return err
	}
	f.handle, f.end, f.state, f.records = handle, 0, State{}, 0
	if size == 0 {
		return nil // it was made just now
	}
	if err := f.scan(size); err != nil {
		f.trouble = err
	}
	if f.end > 0 && f.end < size {
		f.trouble = fmt.Errorf("%w: %d bytes behind the last whole state are cut off (%w)", ErrDamaged, size-f.end, f.trouble)
		return f.handle.Truncate(f.end)
	}
	return nil
}

// errTorn says that the file ends within a state.
var errTorn = errors.New("it ends within a state")

// scan finds the last commit. The error says why nothing behind it counts.
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

// whole is a frame with what the reader wants of its payload.
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
		return damaged("the checksum of a frame is another")
	}
	return nil
}
