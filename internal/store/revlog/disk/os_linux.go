package disk

import (
	"errors"
	"os"
	"syscall"
)

// reserve asks the file system for blocks, so that a later write into them
// cannot fail for lack of space and needs no journal commit for the size. It reports
// whether the file system can do that.
func reserve(f *os.File, off, n int64) (reserved bool, err error) {
	for {
		err := syscall.Fallocate(int(f.Fd()), 0, off, n)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return false, nil // the caller's Truncate makes a sparse file
		default:
			return err == nil, err
		}
	}
}

func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
