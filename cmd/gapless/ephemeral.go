package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// ephemeralMark is the name of the file without which --ephemeral removes no directory.
const ephemeralMark = "gapless-ephemeral"

// removeWithin is how long the server may take to stop before its directory is removed.
const removeWithin = time.Second

var errOwnerGone = errors.New("standard input has ended, and with it the program that the server is for (--ephemeral)")

// owner is the program that holds the other end of standard input.
type owner struct {
	gone <-chan struct{} // nil: there is none
	dir  string
}

// ownedBy returns the owner of a server with --ephemeral; without it there is none.
func ownedBy(in io.Reader, dir string) (owner, error) {
	if dir == "" {
		return owner{}, nil
	}
	if _, err := os.Stat(filepath.Join(dir, ephemeralMark)); err != nil {
		return owner{}, fmt.Errorf("--ephemeral %s: want a directory with a file named %s, which says that it may be removed: %w",
			dir, ephemeralMark, err)
	}
	gone := make(chan struct{})
	go func() { // ends with standard input, or with the process
		defer close(gone)
		_, _ = io.Copy(io.Discard, in) // an error ends it too
	}()
	return owner{gone, dir}, nil
}

// remove removes the directory once the server has stopped, which done says, or does not
// stop: nobody waits for its answers.
func (o owner) remove(done <-chan error) error {
	late := time.NewTimer(removeWithin)
	defer late.Stop()
	var err error
	select {
	case err = <-done:
	case <-late.C:
	}
	return errors.Join(errOwnerGone, err, os.RemoveAll(o.dir))
}
