// Package scratch makes temporary directories that do not stay for ever when their process is
// killed: a later process removes them.
//
// In a [Directory], its process holds a lock on a file, the mark. The lock ends with the
// process, however that ends. What has no lock is removed by the next process that makes one,
// or calls [Clean].
package scratch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// MarkName is the name of the mark.
	MarkName = "gapless-in-use"
	// prefix begins the names of all directories that Make makes.
	prefix = "gapless-"
)

// Directory is a temporary directory that this process uses.
type Directory struct {
	path string
	mark *os.File
}

// Make makes an empty directory for temporary files (but for the mark), readable by its owner
// only. Its name contains kind. It first removes what processes of this user have left that were
// killed, some of it if it is much. The caller calls Remove.
func Make(kind string) (*Directory, error) {
	Clean(os.TempDir(), prefix)
	path, err := os.MkdirTemp("", prefix+kind+"-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	mark, err := os.OpenFile(filepath.Join(path, MarkName), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("mark a temporary directory: %w", err), os.RemoveAll(path))
	}
	d := &Directory{path: path, mark: mark}
	// Who cleans may look at the mark just now, and lets it go since nothing stands in it.
	if err := await(mark); err != nil {
		return d, nil //nolint:nilerr // the file system has no locks: an empty mark keeps the directory
	}
	if err := d.write(""); err != nil {
		return nil, errors.Join(err, d.Remove())
	}
	return d, nil
}

// ErrNotAdopted means that a directory is not one that Adopt may mark.
var ErrNotAdopted = errors.New("it has files of others")

// Adopt marks a directory that another process, owner, made for this one and removes itself
// unless it is killed. Clean removes it when neither this process nor the owner runs. The
// directory must be empty, but for the mark of an earlier process and the files in known.
// The caller calls Release. Errors: ErrNotAdopted, and those of the file system.
func Adopt(path string, owner int, known ...string) (*Directory, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("mark the directory: %w", err)
	}
	marked := func(e os.DirEntry) bool { return e.Name() == MarkName }
	for _, e := range entries {
		if !slices.ContainsFunc(entries, marked) && !slices.Contains(known, e.Name()) {
			return nil, fmt.Errorf("mark the directory %s with %s: %w", path, e.Name(), ErrNotAdopted)
		}
	}
	mark, err := os.OpenFile(filepath.Join(path, MarkName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("mark the directory: %w", err)
	}
	d := &Directory{path: path, mark: mark}
	locked, err := lock(mark)
	if err == nil && !locked || err == nil && !d.isMarked() { // another process uses it, or removes it just now
		err = fmt.Errorf("mark the directory %s: %w", path, ErrNotAdopted)
	}
	if err == nil {
		err = d.write(describe(owner))
	}
	if err != nil {
		return nil, errors.Join(err, mark.Close())
	}
	return d, nil
}

// Path is the path of the directory.
func (d *Directory) Path() string { return d.path }

// Remove removes the directory and what is in it.
func (d *Directory) Remove() error {
	// Closed first: some systems remove no file that is open. Nothing is lost when another
	// process begins to remove the directory at this moment.
	return errors.Join(d.mark.Close(), os.RemoveAll(d.path))
}

// Release ends the use of the directory. Its owner removes it.
func (d *Directory) Release() error { return d.mark.Close() }

// write says in the mark that the directory was locked, and which process it is for besides the
// one that has the lock. One without a text belongs to a process that is about to lock it.
func (d *Directory) write(owner string) error {
	if err := d.mark.Truncate(0); err != nil {
		return fmt.Errorf("mark a temporary directory: %w", err)
	}
	if _, err := d.mark.WriteAt([]byte("used by gapless; removed once it is gone\n"+owner), 0); err != nil {
		return fmt.Errorf("mark a temporary directory: %w", err)
	}
	return nil
}

// isMarked reports whether the open mark is the one in the directory, and not one that was
// removed before it was locked.
func (d *Directory) isMarked() bool {
	open, err := d.mark.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(filepath.Join(d.path, MarkName))
	return err == nil && os.SameFile(open, there)
}

// The bounds of one call of Clean. Others remove the rest.
const (
	mostNames   = 20_000
	mostLooked  = 500
	mostRemoved = 20
)

// Clean removes the directories in a directory whose names begin with a prefix, which have a mark
// that nobody holds a lock on, whose owners have ended, and which are this user's. What
// cannot be removed stays. It does a bounded part of the work in a call.
func Clean(in, prefix string) {
	names, err := firstNames(in)
	if err != nil {
		return
	}
	looked, removed := 0, 0
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if removeLeft(filepath.Join(in, name)) {
			removed++
		}
		if looked++; looked == mostLooked || removed == mostRemoved {
			return
		}
	}
}

// firstNames returns names in a directory, in no order.
func firstNames(in string) ([]string, error) {
	d, err := os.Open(in)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(mostNames)
	return names, errors.Join(err, d.Close())
}

// removeLeft removes one directory if it was left, and reports whether it did.
func removeLeft(path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() || !isOwn(info) {
		return false
	}
	mark, err := os.OpenFile(filepath.Join(path, MarkName), os.O_RDWR, 0)
	if err != nil {
		return false // most often: it has none
	}
	d := &Directory{path: path, mark: mark}
	left := d.isLeft()
	if left {
		left = os.RemoveAll(path) == nil
	}
	_ = mark.Close() // nothing was written
	return left
}

// isLeft takes the lock, and reports whether the directory may be removed.
func (d *Directory) isLeft() bool {
	if locked, err := lock(d.mark); err != nil || !locked || !d.isMarked() {
		return false
	}
	text := make([]byte, 200) // more than write writes
	n, err := d.mark.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	_, owner, written := strings.Cut(string(text[:n]), "\n")
	return written && hasEnded(owner)
}
