//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package disk

import (
	"errors"
	"os"
)

func lockFile(*os.File) error {
	return errors.New("this platform has no file locks, only the memory mode works")
}

// IsNoSpace is not known here, where only the memory mode works.
func IsNoSpace(error) bool { return false }
