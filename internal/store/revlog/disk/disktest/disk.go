// Package disktest is a directory on a simulated disk, for tests of power loss,
// crashes and failing operations.
//
// A [Disk] is a disk.FS that records, in addition to what its readers see (the page cache),
// what is durable and what is pending: written, but not synced. A [Fault] decides the outcome
// of an operation. An image is another Disk: what a crash leaves, made by [Disk.PowerLoss] or
// [Disk.ProcessCrash].
//
// The model is weaker than any real file system: of the pending writes of a file
// any subset of sectors or pages reaches the disk, of the pending changes of size
// and of names any subset, in any order relative to each other. A failed sync
// forgets what was pending: some of it is durable, the rest never will be, however
// often it is synced again, although it can still be read.
package disktest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// ErrCrashed is what every operation returns after the crash.
var ErrCrashed = errors.New("the machine has crashed")

// Op is an operation on the disk.
type Op struct {
	Call int    // 1 for the first of the Disk, counted over all kinds
	Kind string // create, open, rename, remove, list, syncdir, read, write, allocate, sync
	Name string // of the file, "" for the directory
}

// Fault decides the outcome of an operation: nil lets it succeed, ErrCrashed crashes
// the machine in the middle of it, and any other error fails it. It is called
// with the Disk locked.
type Fault func(Op) error

// Disk is a directory on a simulated disk. It is safe for concurrent use.
type Disk struct {
	// mu guards everything here and in the files.
	mu      sync.Mutex
	random  *rand.Rand
	names   map[string]*file // as they can be read
	durable map[string]*file
	pending []change // of names, since the last sync
	calls   int
	crashed bool
	fault   Fault
	wait    func(Op)
}

// change is a change of names: set, if not "", becomes file's, and drop, if it is
// still file's, goes away.
type change struct {
	set, drop string
	file      *file
}

func (c change) apply(names map[string]*file) {
	if c.set != "" {
		names[c.set] = c.file
	}
	if names[c.drop] == c.file {
		delete(names, c.drop)
	}
}

// errGone is returned by operations after the one in which the machine crashed:
// they have no effect at all.
var errGone = fmt.Errorf("%w before", ErrCrashed)

// New returns an empty directory. random decides what remains after faults and crashes.
func New(random *rand.Rand) *Disk {
	return &Disk{random: random, names: map[string]*file{}, durable: map[string]*file{}}
}

var _ disk.FS = (*Disk)(nil)

// SetFault makes f decide about every operation from now on; nil lets all pass.
func (d *Disk) SetFault(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// SetWait makes f be called before each operation, without any lock: it may block,
// so that others are served meanwhile. It is called before the first operation.
func (d *Disk) SetWait(f func(Op)) { d.wait = f }

// Calls returns how many operations there were.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Crash fails every operation from now on.
func (d *Disk) Crash() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashed = true
}

// Crashed reports whether the machine has crashed.
func (d *Disk) Crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.crashed
}

// begin counts an operation and decides about it. mu is held.
func (d *Disk) begin(kind, name string) error {
	if d.crashed {
		return errGone
	}
	d.calls++
	if d.fault == nil {
		return nil
	}
	err := d.fault(Op{Call: d.calls, Kind: kind, Name: name})
	if errors.Is(err, ErrCrashed) {
		d.crashed = true
	}
	if err == nil || errors.Is(err, ErrCrashed) {
		return err
	}
	return &fs.PathError{Op: kind, Path: name, Err: err}
}

func (d *Disk) pause(kind, name string) {
	if d.wait != nil {
		d.wait(Op{Kind: kind, Name: name})
	}
}

// change does a change of names, or half of the times if it fails for a cause
// that may leave it done. mu is held.
func (d *Disk) change(kind, name string, c change) error {
	err := d.begin(kind, name)
	if errors.Is(err, errGone) || err != nil && (disk.IsPassing(err) || d.random.IntN(2) == 0) {
		return err
	}
	c.apply(d.names)
	d.pending = append(d.pending, c)
	return err
}

// Create implements disk.FS.
func (d *Disk) Create(name string) (disk.File, error) {
	d.pause("create", name)
	d.mu.Lock()
	defer d.mu.Unlock()
	made := &file{disk: d, name: name}
	if err := d.change("create", name, change{set: name, file: made}); err != nil {
		return nil, err
	}
	return made, nil
}

// Open implements disk.FS.
func (d *Disk) Open(name string) (disk.File, int64, error) {
	d.pause("open", name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.begin("open", name); err != nil {
		return nil, 0, err
	}
	f, ok := d.names[name]
	if !ok {
		return nil, 0, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return f, int64(len(f.data)), nil
}

// Rename implements disk.FS.
func (d *Disk) Rename(from, to string) error {
	d.pause("rename", to)
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[from]
	if !ok {
		return fmt.Errorf("rename %s: %w", from, fs.ErrNotExist)
	}
	return d.change("rename", to, change{set: to, drop: from, file: f})
}

// Remove implements disk.FS.
func (d *Disk) Remove(name string) error {
	d.pause("remove", name)
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.names[name]
	if !ok {
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	return d.change("remove", name, change{drop: name, file: f})
}

// Dir implements disk.FS.
func (d *Disk) Dir() disk.Dir { return directory{d} }

type directory struct{ disk *Disk }

func (directory) Path() string { return "simulated" }

func (directory) Close() error { return nil }

func (directory) Lock() (disk.Held, error) { return disk.Unlocked{}, nil }

func (r directory) Names() ([]string, error) {
	d := r.disk
	d.pause("list", "")
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), d.begin("list", "")
}

// Sync makes the names durable. If it fails, any of the pending changes are, and
// the others never will be.
func (r directory) Sync() error {
	d := r.disk
	d.pause("syncdir", "")
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.begin("syncdir", "")
	switch {
	case errors.Is(err, ErrCrashed):
		return err
	case err != nil:
		d.durable = d.someNames()
	default:
		d.durable = maps.Clone(d.names)
	}
	d.pending = nil
	return err
}

// someNames are the durable names with any subset of the pending changes.
func (d *Disk) someNames() map[string]*file {
	names := maps.Clone(d.durable)
	for _, c := range d.pending {
		if d.random.IntN(2) == 0 {
			c.apply(names)
		}
	}
	return names
}

// PowerLoss returns the disk after a power failure: what is durable, and
// any part of what is pending. The Disk must have crashed.
func (d *Disk) PowerLoss() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := New(d.random)
	copies := map[*file]*file{}
	names := d.someNames()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		f := names[name]
		if copies[f] == nil {
			data := f.torn()
			copies[f] = &file{disk: left, name: name, data: data, durable: slices.Clone(data)}
		}
		left.names[name] = copies[f]
	}
	left.durable = maps.Clone(left.names)
	return left
}

// ProcessCrash returns what another process finds: all that could be read, with
// what was pending still pending. The Disk must have crashed.
func (d *Disk) ProcessCrash() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := New(d.random)
	copies := map[*file]*file{}
	moved := func(f *file) *file {
		if copies[f] == nil {
			copies[f] = &file{disk: left, name: f.name, data: f.data, durable: f.durable, pending: f.pending}
		}
		return copies[f]
	}
	for name, f := range d.names {
		left.names[name] = moved(f)
	}
	for name, f := range d.durable {
		left.durable[name] = moved(f)
	}
	for _, c := range d.pending {
		c.file = moved(c.file)
		left.pending = append(left.pending, c)
	}
	return left
}

// Clone returns a copy of what can be read, all of it durable.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	other := New(d.random)
	for name, f := range d.names {
		other.names[name] = &file{disk: other, name: name, data: slices.Clone(f.data), durable: slices.Clone(f.data)}
	}
	other.durable = maps.Clone(other.names)
	return other
}

// Names returns the names of the files, in order.
func (d *Disk) Names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names))
}

// Bytes returns what a file holds, nil if there is none. The caller may change it
// by SetBytes only.
func (d *Disk) Bytes(name string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f := d.names[name]; f != nil {
		return slices.Clone(f.data)
	}
	return nil
}

// SetBytes makes a file hold b, durably, also where it is open. A nil b
// removes it.
func (d *Disk) SetBytes(name string, b []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b == nil {
		delete(d.names, name)
		delete(d.durable, name)
		return
	}
	f := d.names[name]
	if f == nil {
		f = &file{disk: d, name: name}
	}
	f.data, f.durable, f.pending = slices.Clone(b), slices.Clone(b), nil
	d.names[name], d.durable[name] = f, f
}
