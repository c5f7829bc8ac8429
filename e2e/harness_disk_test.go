package e2e_test

import (
	"errors"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// failingFS is a file system whose calls fail on demand.
type failingFS struct {
	disk.FS

	why atomic.Pointer[failure]
}

// failure is the error of some kinds of calls.
type failure struct {
	err  error
	ops  map[string]bool
	pass atomic.Int64 // how many of the calls succeed before the first that fails
}

// fail makes the named calls ("create", "write", "sync", "allocate") fail from
// now on; a nil err ends that.
func (f *failingFS) fail(err error, ops ...string) { f.failAfter(0, err, ops...) }

// failAfter is fail, but the first n of the calls succeed.
func (f *failingFS) failAfter(n int64, err error, ops ...string) {
	why := &failure{err: err, ops: map[string]bool{}}
	for _, op := range ops {
		why.ops[op] = true
	}
	why.pass.Store(n)
	f.why.Store(why)
}

func (f *failingFS) call(op string) error {
	if why := f.why.Load(); why != nil && why.ops[op] && why.pass.Add(-1) < 0 {
		return why.err
	}
	return nil
}

func (f *failingFS) Create(name string) (disk.File, error) {
	if err := f.call("create"); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name)
	return failingFile{file, f}, err
}

func (f *failingFS) Open(name string) (disk.File, int64, error) {
	file, size, err := f.FS.Open(name)
	return failingFile{file, f}, size, err
}

type failingFile struct {
	disk.File

	fs *failingFS
}

func (f failingFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.call("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f failingFile) Sync() error {
	if err := f.fs.call("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f failingFile) Allocate(size int64) error {
	if err := f.fs.call("allocate"); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

// poisoned reports whether err is that of a disk that failed.
func poisoned(err error) bool {
	_, is := errors.AsType[*store.PoisonedError](err)
	return is
}
