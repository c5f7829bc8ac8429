package revlog_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

var errCrashed = errors.New("the machine has crashed")

const sector = 512

// crashFS is a directory in memory that knows what a power failure would leave
// of it: of the writes to a file since its last Sync any set of sectors, of the
// changes to the directory since its last Sync any number of the first.
type crashFS struct {
	// mu guards everything here and in the files.
	mu      sync.Mutex
	names   map[string]*crashFile
	durable map[string]*crashFile
	pending []func(map[string]*crashFile) // changes of names since the last Sync

	calls   int
	hook    func(call int, op string) error // may fail a call
	crashAt int                             // call at which image is taken, 0 for never
	random  *rand.Rand
	image   *crashFS // what the crash left
}

// crashFile is a file: its bytes, what of them is on disk, and how they differ.
type crashFile struct {
	fs      *crashFS
	data    []byte
	durable []byte
	writes  []crashWrite
}

// crashWrite is a write that was not synced; data nil means a change of size.
type crashWrite struct {
	off  int64
	data []byte
}

func newCrashFS(random *rand.Rand) *crashFS {
	return &crashFS{names: map[string]*crashFile{}, durable: map[string]*crashFile{}, random: random}
}

// call counts a call and fails it if it is to fail. mu is held.
func (c *crashFS) call(op string) error {
	if c.image != nil {
		return errCrashed
	}
	c.calls++
	if c.calls == c.crashAt {
		c.image = c.crashLocked()
		return errCrashed
	}
	if c.hook != nil {
		return c.hook(c.calls, op)
	}
	return nil
}

// crashLocked returns what is left after a power failure.
func (c *crashFS) crashLocked() *crashFS {
	left := newCrashFS(c.random)
	names := maps.Clone(c.durable)
	for _, change := range c.pending[:c.random.IntN(len(c.pending)+1)] {
		change(names)
	}
	keep := []float64{0, 0.5, 0.9, 1}[c.random.IntN(4)]
	copies := map[*crashFile]*crashFile{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		file := names[name]
		if copies[file] == nil {
			data := file.tear(c.random, keep)
			copies[file] = &crashFile{fs: left, data: data, durable: slices.Clone(data)}
		}
		left.names[name] = copies[file]
	}
	left.durable = maps.Clone(left.names)
	return left
}

// tear returns the durable bytes with some sectors of the later writes.
func (f *crashFile) tear(random *rand.Rand, keep float64) []byte {
	data := slices.Clone(f.durable)
	for _, w := range f.writes {
		if w.data == nil {
			if random.Float64() < keep {
				data = resize(data, w.off)
			}
			continue
		}
		for from := int64(0); from < int64(len(w.data)); {
			to := min(int64(len(w.data)), from+sector-(w.off+from)%sector)
			if random.Float64() < keep {
				data = resize(data, max(int64(len(data)), w.off+to))
				copy(data[w.off+from:], w.data[from:to])
			}
			from = to
		}
	}
	return data
}

func resize(b []byte, size int64) []byte {
	if int64(len(b)) >= size {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

// clone returns a copy in which everything is on disk.
func (c *crashFS) clone() *crashFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	other := newCrashFS(c.random)
	for name, file := range c.names {
		other.names[name] = &crashFile{fs: other, data: slices.Clone(file.data), durable: slices.Clone(file.data)}
	}
	other.durable = maps.Clone(other.names)
	return other
}

func (c *crashFS) change(op string, change func(map[string]*crashFile)) error {
	if err := c.call(op); err != nil {
		return err
	}
	change(c.names)
	c.pending = append(c.pending, change)
	return nil
}

func (c *crashFS) Create(name string) (disk.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	file := &crashFile{fs: c}
	return file, c.change("create", func(names map[string]*crashFile) { names[name] = file })
}

func (c *crashFS) Open(name string) (disk.File, int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.call("open"); err != nil {
		return nil, 0, err
	}
	file, ok := c.names[name]
	if !ok {
		return nil, 0, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return file, int64(len(file.data)), nil
}

func (c *crashFS) Rename(from, to string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change("rename", func(names map[string]*crashFile) {
		names[to] = names[from]
		delete(names, from)
	})
}

func (c *crashFS) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.change("remove", func(names map[string]*crashFile) { delete(names, name) })
}

func (c *crashFS) Dir() disk.Dir { return crashDir{c} }

type crashDir struct{ fs *crashFS }

func (crashDir) Path() string { return "crash" }

func (d crashDir) Names() ([]string, error) {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	return slices.Sorted(maps.Keys(d.fs.names)), d.fs.call("list")
}

func (d crashDir) Sync() error {
	d.fs.mu.Lock()
	defer d.fs.mu.Unlock()
	if err := d.fs.call("syncdir"); err != nil {
		return err
	}
	d.fs.durable, d.fs.pending = maps.Clone(d.fs.names), nil
	return nil
}

func (crashDir) Lock() (io.Closer, error) { return io.NopCloser(nil), nil }

func (f *crashFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call("read"); err != nil && !errors.Is(err, errCrashed) {
		return 0, err // reads after a crash are of no interest
	}
	if off >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *crashFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	// The write counts before it fails: a crash may come in the middle of it.
	f.data = resize(f.data, max(int64(len(f.data)), off+int64(len(p))))
	copy(f.data[off:], p)
	f.writes = append(f.writes, crashWrite{off, slices.Clone(p)})
	return len(p), f.fs.call("write")
}

func (f *crashFile) Allocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call("allocate"); err != nil {
		return err
	}
	f.data = resize(f.data, size)
	f.writes = append(f.writes, crashWrite{off: size})
	return nil
}

func (f *crashFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.call("sync"); err != nil {
		return err
	}
	f.durable, f.writes = slices.Clone(f.data), nil
	return nil
}

func (f *crashFile) Close() error { return nil }
