//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package scratch

import (
	"errors"
	"io/fs"
	"os"
)

// lock locks nothing here: what a process leaves that was killed stays.
func lock(*os.File) (locked bool, err error) { return false, nil }

func await(*os.File) error { return errors.ErrUnsupported }

func isOwn(fs.FileInfo) bool { return false }

func describe(int) string { return "" }

func hasEnded(string) bool { return false }
