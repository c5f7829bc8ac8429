package processtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	// directoryPrefix begins the names of the directories of servers.
	directoryPrefix = "gapless-test-"
	// markName is the file that this process holds a lock on as long as it uses the directory,
	// and without which the server removes none (gapless serve --ephemeral).
	markName = "gapless-ephemeral"
)

// directory is where a server has its files. The server removes it when this process is killed.
type directory struct {
	path string
	mark *os.File
}

// makeDirectory makes a directory. The first one of a process removes what others have left
// that were killed while their server was being restarted, so that it could not.
func makeDirectory() (*directory, error) {
	cleanOnce()
	path, err := os.MkdirTemp("", directoryPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for the server: %w", err)
	}
	// It gets its name when it is locked: one without a lock is one that was left.
	file := filepath.Join(path, markName)
	mark, err := os.OpenFile(file+".new", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a directory for the server: %w", err), os.RemoveAll(path))
	}
	d := &directory{path: path, mark: mark}
	if _, err = lock(mark); err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the directory of the server: %w", err), d.remove())
	}
	return d, nil
}

func (d *directory) remove() error { return errors.Join(os.RemoveAll(d.path), d.mark.Close()) }

// cleanOnce removes what was left, once in this process.
//
//nolint:gochecknoglobals // what is done once in a process is known by the process
var cleanOnce = sync.OnceFunc(func() { clean(os.TempDir()) })

// The bounds of what one process removes. Others remove the rest.
const (
	mostNames   = 20_000
	mostRemoved = 20
)

// clean removes the directories of servers that nobody has a lock on. What cannot be removed, for
// example because it is another user's, stays.
func clean(in string) {
	d, err := os.Open(in)
	if err != nil {
		return
	}
	names, _ := d.Readdirnames(mostNames) // those that could be read
	_ = d.Close()                         // nothing was written
	removed := 0
	for _, name := range names {
		if strings.HasPrefix(name, directoryPrefix) && removeLeft(filepath.Join(in, name)) {
			removed++
		}
		if removed == mostRemoved {
			return
		}
	}
}

// removeLeft removes one directory if nobody has a lock on it, and reports whether it did.
func removeLeft(path string) bool {
	mark, err := os.OpenFile(filepath.Join(path, markName), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	locked, err := lock(mark)
	left := locked && err == nil && os.RemoveAll(path) == nil
	_ = mark.Close() // nothing was written
	return left
}
