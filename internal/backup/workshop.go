package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// workshop is the directory in which a restore makes a log, below the data directory, which it has locked. The lock is
// not in the workshop: Windows neither moves nor removes a directory with an open file, so that it would have to be
// released before the log has its name.
type workshop struct {
	path  string
	files disk.FS
	data  disk.FS // the data directory
	lock  disk.Held
}

// enter locks the data directory and opens the workshop. Errors: *store.LockedError during another restore,
// ErrNotEmpty after it.
func (o RestoreOptions) enter() (w workshop, err error) {
	w.path = filepath.Join(o.Dir, build.Unfinished)
	if w.data, err = disk.NewOS(o.Dir); err != nil {
		return w, err
	}
	if w.lock, err = w.data.Dir().Lock(); err != nil {
		return w, errors.Join(err, w.data.Dir().Close())
	}
	if err = w.check(o.Dir); err == nil {
		open := o.FS
		if open == nil {
			open = disk.NewOS
		}
		w.files, err = open(w.path)
	}
	if err != nil {
		return w, errors.Join(err, w.release())
	}
	return w, nil
}

// check looks at what another restore may have done before the lock was taken.
func (w workshop) check(dir string) error {
	if moved := w.lock.Check(); moved != nil { // it has failed, and removed the directory
		return fmt.Errorf("another restore into %s has ended meanwhile: run this one again", dir)
	}
	return checkEmpty(dir)
}

// leave gives the log its name, or removes the workshop after an error, which it returns.
func (w workshop) leave(to string, err error) error {
	err = errors.Join(err, w.files.Dir().Close())
	if err == nil {
		err = durable.Rename(w.path, to)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(w.path))
	}
	return errors.Join(err, w.release())
}

// release ends the lock, and removes its file: while it is locked, so that it is not that of another restore, or
// on Windows, which cannot remove an open file, afterwards, when it cannot remove that of another one.
func (w workshop) release() error {
	open := w.data.Remove(disk.LockName)
	err := w.lock.Close()
	if open != nil {
		_ = w.data.Remove(disk.LockName) // a file that stays behind locks nobody out
	}
	return errors.Join(err, w.data.Dir().Close())
}
