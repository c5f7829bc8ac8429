package warm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Disk is one directory: what a file needs of a file system, so that tests can put
// one that fails below it. Names have no separators.
type Disk interface {
	// Open opens a file for reading and writing and returns its size in bytes. It
	// makes an empty one if there is none.
	Open(name string) (Handle, int64, error)
	// Replace gives the file from, which nobody has open, the name to, and returns when
	// that outlives a crash. What to was before is gone.
	Replace(from, to string) error
	// Remove removes a file that nobody has open; one that is not there is no error.
	Remove(name string) error
	// Lock keeps other processes from locking the name until the result is closed. The
	// error wraps ErrLocked, and says who, when another has it.
	Lock(name string) (io.Closer, error)
}

// Handle is an open file.
type Handle interface {
	io.ReaderAt
	io.WriterAt
	// Truncate cuts the file to size bytes.
	Truncate(size int64) error
	// Sync returns when all that was written outlives a crash.
	Sync() error
	io.Closer
}

// ErrLocked is wrapped by the error of a file that another process uses, or another
// informer of this one.
var ErrLocked = errors.New("the file is in use")

// Dir is a directory of the operating system. It is made when it is needed, for
// nobody else to read: what informers hold can be secret.
type Dir string

func (d Dir) path(name string) string { return filepath.Join(string(d), name) }

func (d Dir) open(name string) (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(d.path(name), os.O_RDWR|os.O_CREATE, 0o600)
}

// Open implements Disk.
func (d Dir) Open(name string) (Handle, int64, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no file", d.path(name))
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Replace implements Disk.
func (d Dir) Replace(from, to string) error {
	if err := os.Rename(d.path(from), d.path(to)); err != nil {
		return err
	}
	if runtime.GOOS == "windows" { // directories cannot be opened for syncing there
		return nil
	}
	dir, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Remove implements Disk.
func (d Dir) Remove(name string) error {
	if err := os.Remove(d.path(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Lock implements Disk.
func (d Dir) Lock(name string) (io.Closer, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		if errors.Is(err, ErrLocked) {
			holder := make([]byte, 128)
			n, _ := f.ReadAt(holder, 0) // who it is helps, but is not needed
			err = fmt.Errorf("%w: %s is locked by %q", ErrLocked, f.Name(), holder[:n])
		}
		return nil, errors.Join(err, f.Close())
	}
	// A note for whoever finds it locked; a full disk is no reason not to lock.
	note := fmt.Sprintf("pid %d since %s", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(note), 0)
	}
	return f, nil // closing it gives the lock back
}
