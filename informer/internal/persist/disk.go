package persist

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// Disk is one directory. It has the operations that a File needs, so that tests can
// replace it by one that fails. Names have no separators.
type Disk interface {
	// Open opens a file for reading and writing and returns its size in bytes. It creates
	// an empty file if there is none.
	Open(name string) (Handle, int64, error)
	// Replace renames the closed file from to the name to, whose old file is removed. It
	// returns when the new name is durable.
	Replace(from, to string) error
	// Remove removes a closed file. A file that does not exist is no error.
	Remove(name string) error
	// Lock locks a name until the result is closed. If another process or another
	// informer has the lock, the error wraps ErrLocked and names the process.
	Lock(name string) (io.Closer, error)
}

// Handle is an open file.
type Handle interface {
	io.ReaderAt
	io.WriterAt
	// Truncate cuts the file to size bytes.
	Truncate(size int64) error
	// Sync returns when everything that was written is durable.
	Sync() error
	io.Closer
}

// ErrLocked is wrapped by the error of a file that another process, or another informer of
// this process, uses.
var ErrLocked = errors.New("the file is in use")

// Dir is a directory of the operating system. It is created when it is needed, with
// permissions for its owner only, because objects can be secret.
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
		err = fmt.Errorf("%s is not a regular file", d.path(name))
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
	if runtime.GOOS == "windows" { // cannot sync directories
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
			n, _ := f.ReadAt(holder, 0) // the error is useful without it too
			err = fmt.Errorf("%w: %s is locked by %q", ErrLocked, f.Name(), holder[:n])
		}
		return nil, errors.Join(err, f.Close())
	}
	// The error of other processes quotes this note. Locking works without it, for example
	// on a full disk.
	note := fmt.Sprintf("pid %d since %s", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(note), 0)
	}
	return f, nil // closing it unlocks it
}
