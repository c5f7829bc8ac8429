//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package persist

import (
	"errors"
	"os"
)

func lockFile(*os.File) error {
	return errors.New("this platform has no file locks, which the snapshot file needs")
}
