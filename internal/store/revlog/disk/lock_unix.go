//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"os"
	"slices"
	"syscall"
)

func lockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}

// isUnsupported says that a file system cannot lock a directory. NFS, which has locks for byte
// ranges only, wants a descriptor for writing (EBADF).
func isUnsupported(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EBADF, syscall.EINVAL, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOLCK, syscall.ENOSYS,
	},
		func(cause error) bool { return errors.Is(err, cause) })
}

// unlock removes the lock's file and releases the lock.
func (o osFS) unlock(f *os.File) error {
	_ = o.root.Remove(LockName) // a file that stays behind locks no process out
	return f.Close()            // releases the lock
}
