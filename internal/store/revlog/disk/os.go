package disk

import (
	"cmp"
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

// LockName is the file in a directory on disk that is locked, and that says who has the lock.
// It is there while the lock is held, and after the holder was killed.
const LockName = "LOCK"

// osFS is a directory of the operating system. It is the directory that was opened, and not what
// is at its path later: a server whose directory is moved away must not write into the one that
// another server has made in its place.
type osFS struct {
	dir  string
	root *os.Root
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
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the log's directory: %w", err)
	}
	if runtime.GOOS == "windows" { // directories cannot be opened for syncing there
		return osFS{dir: dir, root: root, sparse: sparse}, nil
	}
	handle, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the log's directory: %w", err), root.Close())
	}
	return osFS{dir: dir, root: root, handle: handle, sparse: sparse}, nil
}

func (o osFS) Close() error {
	if o.handle == nil {
		return o.root.Close()
	}
	return errors.Join(o.handle.Close(), o.root.Close())
}

func (o osFS) Create(name string) (File, error) {
	f, err := o.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, sparse: o.sparse}, nil
}

func (o osFS) Open(name string) (File, int64, error) {
	f, err := o.root.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return &osFile{File: f, sparse: o.sparse}, info.Size(), nil
}

func (o osFS) Rename(from, to string) error { return o.root.Rename(from, to) }

func (o osFS) Remove(name string) error { return o.root.Remove(name) }

func (o osFS) Dir() Dir { return o }

func (o osFS) Path() string { return o.dir }

func (o osFS) Names() (names []string, err error) {
	all, err := o.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, all.Close()) }()
	return all.Readdirnames(-1)
}

func (o osFS) Sync() error {
	if o.handle == nil {
		return nil
	}
	return o.handle.Sync()
}

// Lock implements Dir. It locks the directory itself, so that who removes or replaces the lock's
// file lets nobody in, and that file, which programs of other versions and other systems look at.
func (o osFS) Lock() (Held, error) {
	before, err := o.Names()
	if err != nil {
		return nil, fmt.Errorf("lock the log's directory: %w", err)
	}
	directory, err := o.lockDirectory()
	if err != nil {
		return nil, err
	}
	file, err := o.lockName()
	if err != nil {
		return nil, errors.Join(err, directory.Close())
	}
	return heldLock{dir: o, directory: directory, file: file, before: before}, nil
}

// lockDirectory locks a descriptor of the directory, which the caller closes.
func (o osFS) lockDirectory() (io.Closer, error) {
	if o.handle == nil {
		return io.NopCloser(nil), nil // no program can remove a locked file there
	}
	directory, err := o.root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("lock the log's directory: %w", err)
	}
	switch err := lockFile(directory); {
	case errors.Is(err, errLocked):
		return nil, errors.Join(&store.LockedError{Path: o.dir, Holder: o.holder()}, directory.Close())
	case err != nil && !isUnsupported(err): // a network file system may lock files only
		return nil, errors.Join(fmt.Errorf("lock the log's directory: %w", err), directory.Close())
	}
	return directory, nil
}

// lockName locks the file of the lock.
func (o osFS) lockName() (*os.File, error) {
	for {
		f, err := o.tryLock()
		if err != nil {
			return nil, err
		}
		current, err := o.isCurrent(f)
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
		return f, nil
	}
}

// tryLock opens and locks the lock's file.
func (o osFS) tryLock() (*os.File, error) {
	f, err := o.openLock()
	if err != nil {
		return nil, fmt.Errorf("lock the log's directory: %w", err)
	}
	if err = lockFile(f); err == nil {
		return f, nil
	}
	if errors.Is(err, errLocked) {
		err = &store.LockedError{Path: o.dir, Holder: o.holder()}
	}
	return nil, errors.Join(err, f.Close())
}

// openLock opens the file of the lock. On Windows os.Root opens files so that others may remove
// them, and os.OpenFile does not.
func (o osFS) openLock() (*os.File, error) {
	if runtime.GOOS == "windows" {
		return os.OpenFile(filepath.Join(o.dir, LockName), os.O_RDWR|os.O_CREATE, 0o600)
	}
	return o.root.OpenFile(LockName, os.O_RDWR|os.O_CREATE, 0o600)
}

// holder is who has the lock, as its file says.
func (o osFS) holder() string {
	const longest = 128
	f, err := o.root.Open(LockName)
	if err != nil {
		return "unknown"
	}
	defer func() { _ = f.Close() }() // it is only read
	note := make([]byte, longest)
	n, _ := f.ReadAt(note, 0) // what can be read of it
	return cmp.Or(string(note[:n]), "unknown")
}

// isCurrent reports whether f is still the file of its name.
func (o osFS) isCurrent(f *os.File) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := o.root.Stat(LockName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// heldLock is the lock of a directory.
type heldLock struct {
	dir       osFS
	directory io.Closer
	file      *os.File
	before    []string // what was in the directory when the lock was taken
}

// Close releases the lock. Its file stays, so that a full disk does not prevent
// the next lock, unless the directory is otherwise as it was before and there was
// none: a start that failed leaves no file behind. The file is removed before the
// lock is released; a process that has opened it meanwhile sees that it is not current.
func (h heldLock) Close() error {
	now, err := h.dir.Names()
	if err != nil || len(now) != len(h.before)+1 || slices.Contains(h.before, LockName) {
		return errors.Join(h.file.Close(), h.directory.Close())
	}
	return errors.Join(h.dir.unlock(h.file), h.directory.Close())
}

// Check implements Held. Whoever cannot be asked may come back: that is no answer.
func (h heldLock) Check() error {
	mine, err := h.dir.root.Stat(".")
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	there, err := os.Stat(h.dir.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s was moved or removed: move it back", ErrMoved, h.dir.dir)
	case err == nil && !os.SameFile(mine, there):
		return fmt.Errorf("%w: another directory is in the place of %s: stop this server, or put its directory back",
			ErrMoved, h.dir.dir)
	}
	return nil
}

var errLocked = errors.New("locked by another process")
