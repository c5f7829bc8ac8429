//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package disk

import (
	"errors"
	"slices"
	"syscall"
)

// IsPassing reports whether err means that the system refused to do something for a
// cause that ends by itself or by an operator's hand (no space, no quota, no file
// handles, no memory, a read-only file system, missing permissions) and that
// nothing that was on disk has changed.
func IsPassing(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EROFS, syscall.EACCES,
		syscall.EPERM,
	}, func(cause syscall.Errno) bool { return errors.Is(err, cause) })
}
