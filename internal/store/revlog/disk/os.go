package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// LockName is the file that FS.Lock of a directory on disk leaves in it.
const LockName = "LOCK"

// osFS is a directory of the operating system.
type osFS struct{ dir string }

// NewOS returns the directory dir, which is made if it is missing.
func NewOS(dir string) (FS, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the log's directory: %w", err)
	}
	return osFS{dir: dir}, nil
}

func (o osFS) path(name string) string { return filepath.Join(o.dir, name) }

func (o osFS) Create(name string) (File, error) {
	f, err := os.OpenFile(o.path(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
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
	return osFile{f}, info.Size(), nil
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
	if runtime.GOOS == "windows" { // directories cannot be opened for syncing there
		return nil
	}
	d, err := os.Open(o.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (o osFS) Lock() (io.Closer, error) {
	path := o.path(LockName)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the log's directory: %w", err)
	}
	if err := lockFile(f); err != nil {
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
	self := fmt.Sprintf("pid %d since %s", os.Getpid(), time.Now().UTC().Format(time.RFC3339))
	_, err = f.WriteAt([]byte(self), 0)
	if err == nil {
		err = f.Truncate(int64(len(self)))
	}
	if err != nil && !IsNoSpace(err) { // a full disk must not keep readers out
		return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
	}
	return f, nil // closing the file gives the lock back
}

var errLocked = errors.New("locked by another process")

type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Allocate(size int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if size > info.Size() {
		if err := reserve(f.File, info.Size(), size-info.Size()); err != nil {
			return err
		}
	}
	return f.Truncate(size)
}
