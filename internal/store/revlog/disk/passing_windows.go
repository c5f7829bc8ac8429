package disk

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/windows"
)

// IsPassing reports whether err means that the system refused to do something for a
// cause that ends by itself or by an operator's hand (no space, no file handles,
// no memory, missing permissions) and that nothing that was on disk has changed.
func IsPassing(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED,
		windows.ERROR_TOO_MANY_OPEN_FILES, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_ACCESS_DENIED,
		windows.ERROR_SHARING_VIOLATION,
	}, func(cause syscall.Errno) bool { return errors.Is(err, cause) })
}
