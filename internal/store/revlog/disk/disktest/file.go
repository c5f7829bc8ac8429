package disktest

import (
	"errors"
	"io"
	"slices"

	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// Sizes of what reaches the disk wholly or not at all.
const (
	sectorBytes = 512
	pageBytes   = 4096
)

// file is a file: what can be read of it, what is durable, and how they differ.
type file struct {
	disk    *Disk
	name    string
	data    []byte // as it can be read
	durable []byte
	pending []write
}

// write is a write that was not synced; data nil means a change of size to off.
type write struct {
	off  int64
	data []byte
}

// ReadAt implements disk.File. Reads still work after the crash: what they return is of
// no interest then.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.disk.pause("read", f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.begin("read", f.name); err != nil {
		return 0, err
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

// WriteAt implements disk.File. A write that fails, or during which the machine
// crashes, has any beginning of it done, up to the end of a sector (a kernel copies
// whole pages between two looks at whether the process was killed).
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.disk.pause("write", f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.begin("write", f.name)
	if errors.Is(err, errGone) {
		return 0, err
	}
	if err != nil {
		if n := int64(f.disk.random.IntN(len(p) + 1)); n < int64(len(p)) {
			p = p[:max(0, n-(off+n)%sectorBytes)]
		}
	}
	f.data = resize(f.data, max(int64(len(f.data)), off+int64(len(p))))
	copy(f.data[off:], p)
	f.pending = append(f.pending, write{off, slices.Clone(p)})
	return len(p), err
}

// Allocate implements disk.File. One that fails may have extended the file.
func (f *file) Allocate(size int64) error {
	f.disk.pause("allocate", f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.begin("allocate", f.name)
	if errors.Is(err, errGone) {
		return err
	}
	if err != nil {
		now := int64(len(f.data))
		if size <= now {
			return err
		}
		size = now + f.disk.random.Int64N(size-now+1)
	}
	f.data = resize(f.data, size)
	f.pending = append(f.pending, write{off: size})
	return err
}

// Sync implements disk.File. If it fails, any of what was pending is durable, and
// the rest never will be.
func (f *file) Sync() error {
	f.disk.pause("sync", f.name)
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.disk.begin("sync", f.name)
	switch {
	case errors.Is(err, ErrCrashed):
		return err
	case err != nil:
		f.durable = f.torn()
	default:
		f.durable = f.apply(func(int) bool { return true })
	}
	f.pending = nil
	return err
}

// Close implements disk.File.
func (f *file) Close() error { return nil }

// torn returns the durable bytes with any part of what is pending.
func (f *file) torn() []byte {
	if len(f.pending) == 0 {
		return slices.Clone(f.durable)
	}
	keep := []float64{0, 0.5, 0.9, 1}[f.disk.random.IntN(4)]
	return f.apply(func(int) bool { return f.disk.random.Float64() < keep })
}

// apply returns the durable bytes with those parts of the pending writes for which
// keep, called for each in turn, says so.
func (f *file) apply(keep func(int) bool) []byte {
	data := slices.Clone(f.durable)
	unit := int64(sectorBytes)
	if f.disk.random.IntN(2) == 0 {
		unit = pageBytes
	}
	for i, w := range f.pending {
		if w.data == nil {
			if keep(i) {
				data = resize(data, w.off)
			}
			continue
		}
		for from := int64(0); from < int64(len(w.data)); {
			to := min(int64(len(w.data)), from+unit-(w.off+from)%unit)
			if keep(i) {
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

var _ disk.File = (*file)(nil)
