//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"os"
	"syscall"
)

func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// unlock removes the lock's file and releases the lock.
func unlock(f *os.File) error {
	_ = os.Remove(f.Name()) // a file that stays behind locks no process out
	return f.Close()        // releases the lock
}
