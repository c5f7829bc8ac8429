package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks a byte far behind the holder's note, which others may read.
func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{Offset: 1 << 20})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

func isUnsupported(error) bool { return false }

// unlock releases the lock and removes its file, unless another process has opened
// it meanwhile: Windows removes no open file.
func (o osFS) unlock(f *os.File) error {
	err := f.Close()
	_ = o.root.Remove(LockName) // a file that stays behind locks no process out
	return err
}
