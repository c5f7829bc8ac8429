//go:build unix

package serve

import (
	"math"

	"golang.org/x/sys/unix"
)

// FileHandles is how many files and connections the process may have open.
func FileHandles() int {
	var of unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &of); err != nil {
		return math.MaxInt32 // the default is less
	}
	return int(min(uint64(of.Cur), math.MaxInt32)) //nolint:unconvert // it is signed on some systems
}
