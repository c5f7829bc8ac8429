//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package processtest

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file until it is closed, or this process ends. It reports whether it could: another
// one may have locked it.
func lock(f *os.File) (locked bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // descriptors are small
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// await locks a file as lock does, and waits for it.
func await(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX) //nolint:gosec // descriptors are small
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
