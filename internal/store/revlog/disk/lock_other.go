//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package disk

import (
	"errors"
	"os"
)

func lockFile(*os.File) error {
	return errors.New("this platform has no file locks, only the memory mode works")
}

func isUnsupported(error) bool { return false }

func (osFS) unlock(f *os.File) error { return f.Close() }
