package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store"
)

// LockName is the file in a directory on disk that is locked. It is there while
// the lock is held, and after the holder was killed.
const LockName = "LOCK"

// osFS is a directory of the operating system.
type osFS struct {
	dir string
	// handle is open from the beginning, so that the directory can be synced when
	// no file handles are left. It is nil where directories cannot be synced.
	handle *os.File
	// sparse files take only the room of what was written: nothing is reserved for what will be.
	sparse bool
}

// NewOS returns the directory dir, which is made if it is missing.
func NewOS(dir string) (FS, error) { return newOS(dir, false) }

func newOS(dir string, sparse bool) (FS, error) {
	if err := durable.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make the log's directory: %w", err)
	}
	if runtime.GOOS == "windows" { // directories cannot be opened for syncing there
		return osFS{dir: dir, sparse: sparse}, nil
	}
	handle, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the log's directory: %w", err)
	}
	return osFS{dir: dir, handle: handle, sparse: sparse}, nil
}

func (o osFS) Close() error {
	if o.handle == nil {
		return nil
	}
	return o.handle.Close()
}

func (o osFS) path(name string) string { return filepath.Join(o.dir, name) }

func (o osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(o.path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, sparse: o.sparse}, nil
}

func (o osFS) Open(name string) (File, int64, error) {
	f, err := os.OpenFile(o.path(name), os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return &osFile{File: f, sparse: o.sparse}, info.Size(), nil
}

func (o osFS) Rename(from, to string) error { return os.Rename(o.path(from), o.path(to)) }

func (o osFS) Remove(name string) error { return os.Remove(o.path(name)) }

func (o osFS) Dir() Dir { return o }

func (o osFS) Path() string { return o.dir }

func (o osFS) Names() ([]string, error) {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (o osFS) Sync() error {
	if o.handle == nil {
		return nil
	}
	return o.handle.Sync()
}

func (o osFS) Lock() (io.Closer, error) {
	before, err := o.Names()
	if err != nil {
		return nil, fmt.Errorf("lock the log's directory: %w", err)
	}
	for {
		f, err := o.tryLock()
		if err != nil {
			return nil, err
		}
		current, err := isCurrent(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("lock the log's directory: %w", err), f.Close())
		}
		if !current { // its holder has removed it since it was opened
			if err := f.Close(); err != nil {
				return nil, fmt.Errorf("lock the log's directory: %w", err)
			}
			continue
		}
		self := fmt.Sprintf("pid %d since %s", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
		if _, err = f.WriteAt([]byte(self), 0); err == nil {
			err = f.Truncate(int64(len(self)))
		}
		if err != nil && !IsPassing(err) { // a full disk must not keep readers out
			return nil, errors.Join(fmt.Errorf("write %s: %w", f.Name(), err), f.Close())
		}
		return heldLock{dir: o, file: f, before: before}, nil
	}
}

// tryLock opens and locks the lock's file.
func (o osFS) tryLock() (*os.File, error) {
	f, err := os.OpenFile(o.path(LockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the log's directory: %w", err)
	}
	err = lockFile(f)
	if err == nil {
		return f, nil
	}
	holder := make([]byte, 128)
	n, readErr := f.ReadAt(holder, 0)
	if n == 0 {
		holder, n = []byte("unknown"), len("unknown")
	}
	if readErr != nil && !errors.Is(readErr, io.EOF) {
		err = errors.Join(err, readErr)
	}
	if errors.Is(err, errLocked) {
		err = &store.LockedError{Path: o.dir, Holder: string(holder[:n])}
	}
	return nil, errors.Join(err, f.Close())
}

// isCurrent reports whether f is still the file of its name.
func isCurrent(f *os.File) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// heldLock is the lock of a directory.
type heldLock struct {
	dir    osFS
	file   *os.File
	before []string // what was in the directory when the lock was taken
}

// Close releases the lock. Its file stays, so that a full disk does not prevent
// the next lock, unless the directory is otherwise as it was before and there was
// none: a start that failed leaves no file behind. The file is removed before the
// lock is released; a process that has opened it meanwhile sees that it is not current.
func (h heldLock) Close() error {
	now, err := h.dir.Names()
	if err != nil || len(now) != len(h.before)+1 || slices.Contains(h.before, LockName) {
		return h.file.Close()
	}
	return unlock(h.file)
}

var errLocked = errors.New("locked by another process")
