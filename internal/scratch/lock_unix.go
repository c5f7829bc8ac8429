//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package scratch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// lock locks a file until it is closed, or this process ends. It reports whether it could: another
// process may have locked it.
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

// isOwn reports whether a file is this user's.
func isOwn(info fs.FileInfo) bool {
	stat, is := info.Sys().(*syscall.Stat_t)
	return is && int(stat.Uid) == os.Geteuid()
}

// describe names a process: by its number, and by when it was started if the system says so, since
// numbers are given again.
func describe(process int) string { return fmt.Sprintf("%d %s\n", process, started(process)) }

// hasEnded reports whether the process that describe named has ended. "" is no process.
func hasEnded(described string) bool {
	if described == "" {
		return true
	}
	var process int
	if _, err := fmt.Sscan(described, &process); err != nil || process <= 0 || !strings.HasSuffix(described, "\n") {
		return false // half a text, or another version's
	}
	return errors.Is(syscall.Kill(process, 0), syscall.ESRCH) || describe(process) != described
}
