package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gapless-io/gapless/internal/durable"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// workshop is the directory in which one restore at a time makes a log.
type workshop struct {
	path  string
	files disk.FS
	lock  disk.Held
}

// enter opens and locks the directory. Errors: *store.LockedError during another restore.
func (o RestoreOptions) enter() (w workshop, err error) {
	w.path = filepath.Join(o.Dir, build.Unfinished)
	open := o.FS
	if open == nil {
		open = disk.NewOS
	}
	if w.files, err = open(w.path); err != nil {
		return w, err
	}
	if w.lock, err = w.files.Dir().Lock(); err != nil {
		_ = os.Remove(w.path) // another restore works in it, or has made something there
		return w, errors.Join(err, w.files.Dir().Close())
	}
	if moved := w.lock.Check(); moved != nil {
		// It was opened before the other restore gave it the name of a log, or removed it.
		return w, errors.Join(fmt.Errorf("another restore into %s has ended meanwhile; if it failed, run this one again", o.Dir),
			w.close())
	}
	return w, nil
}

// leave gives the directory its name, or removes it after an error, which it returns.
func (w workshop) leave(to string, err error) error {
	if runtime.GOOS == "windows" { // which neither moves nor removes a directory with an open file
		return w.settle(to, errors.Join(err, w.close()))
	}
	// Under the lock: another restore would empty the directory before it is moved.
	return errors.Join(w.settle(to, err), w.close())
}

func (w workshop) settle(to string, err error) error {
	if err == nil {
		err = durable.Rename(w.path, to)
	}
	if err != nil {
		err = errors.Join(err, os.RemoveAll(w.path))
	}
	return err
}

func (w workshop) close() error { return errors.Join(w.lock.Close(), w.files.Dir().Close()) }
