package disk_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// systems returns every file system, empty.
func systems(t *testing.T) map[string]disk.FS {
	t.Helper()
	onDisk, err := disk.NewOS(t.TempDir())
	if err != nil {
		t.Fatalf("open the directory: %v", err)
	}
	unsynced, err := disk.NewUnsynced(t.TempDir())
	if err != nil {
		t.Fatalf("open the directory: %v", err)
	}
	return map[string]disk.FS{"os": onDisk, "unsynced": unsynced, "memory": disk.NewMemory()}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesKeepWhatIsWritten(t *testing.T) {
	for name, system := range systems(t) {
		t.Run(name, func(t *testing.T) {
			f, err := system.Create("a")
			must(t, err)
			const size = 200_000
			must(t, f.Allocate(size))
			want := make([]byte, size)
			for _, off := range []int64{0, 65_530, 131_072, 199_990} {
				_, err := f.WriteAt([]byte("0123456789"), off)
				must(t, err)
				copy(want[off:], "0123456789")
			}
			must(t, f.Sync())
			must(t, f.Close())

			f, got, err := system.Open("a")
			must(t, err)
			if got != size {
				t.Errorf("size %d, want %d", got, size)
			}
			b := make([]byte, size)
			if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || !bytes.Equal(b, want) {
				t.Errorf("other bytes come back (%v)", err)
			}
			must(t, f.Allocate(65_535))
			must(t, f.Allocate(70_000))
			n, err := f.ReadAt(b, 65_530)
			if !errors.Is(err, io.EOF) || !bytes.Equal(b[:n], append([]byte("01234"), make([]byte, 4465)...)) {
				t.Errorf("after cutting and growing %d bytes come back, %v", n, err)
			}
			if n, err := f.ReadAt(b, 80_000); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("behind the end: %d, %v", n, err)
			}
			must(t, f.Close())
		})
	}
}

func TestNamesFollowRenameAndRemove(t *testing.T) {
	for name, system := range systems(t) {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"a", "b", "c"} {
				f, err := system.Create(file)
				must(t, err)
				_, err = f.WriteAt([]byte(file), 0)
				must(t, err)
				must(t, f.Close())
			}
			must(t, system.Rename("a", "b"))
			must(t, system.Remove("c"))
			must(t, system.Dir().Sync())
			names, err := system.Dir().Names()
			must(t, err)
			if !slices.Equal(names, []string{"b"}) {
				t.Errorf("names %q", names)
			}
			f, _, err := system.Open("b")
			must(t, err)
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) || b[0] != 'a' {
				t.Errorf("b holds %q, %v", b, err)
			}
			must(t, f.Close())
			if _, _, err := system.Open("c"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("opening a removed file gives %v", err)
			}
			for _, err := range []error{system.Remove("c"), system.Rename("c", "d")} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a removed file gives %v", err)
				}
			}
		})
	}
}

func TestLockIsHeldUntilClosed(t *testing.T) {
	dir := t.TempDir()
	system, err := disk.NewOS(dir)
	must(t, err)
	held, err := system.Dir().Lock()
	must(t, err)
	_, err = system.Dir().Lock()
	if locked, ok := errors.AsType[*store.LockedError](err); !ok || locked.Path != dir {
		t.Errorf("a second lock gives %v, want LockedError", err)
	}
	must(t, held.Close())
	held, err = system.Dir().Lock()
	must(t, err)
	must(t, held.Close())
}

// TestALockHoldsWithoutItsFile removes the file of a lock, or puts another one in its place.
func TestALockHoldsWithoutItsFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a locked file cannot be removed there")
	}
	for name, change := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("pid 1 since yesterday"), 0o600), os.Rename(path+".new", path))
		},
		"a directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			system, err := disk.NewOS(dir)
			must(t, err)
			other, err := disk.NewOS(dir)
			must(t, err)
			held, err := system.Dir().Lock()
			must(t, err)
			must(t, change(filepath.Join(dir, disk.LockName)))
			_, err = other.Dir().Lock()
			if locked, ok := errors.AsType[*store.LockedError](err); !ok || locked.Path != dir || locked.Holder == "" {
				t.Errorf("a second lock gives %v, want LockedError", err)
			}
			must(t, held.Close())
			must(t, os.RemoveAll(filepath.Join(dir, disk.LockName)))
			held, err = other.Dir().Lock()
			must(t, err)
			must(t, errors.Join(held.Close(), system.Dir().Close(), other.Dir().Close()))
		})
	}
}

// TestAMovedDirectoryStaysTheSame makes another directory in the place of one that is used.
func TestAMovedDirectoryStaysTheSame(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open directory cannot be moved there")
	}
	parent := t.TempDir()
	at, away := filepath.Join(parent, "log"), filepath.Join(parent, "away")
	system, err := disk.NewOS(at)
	must(t, err)
	held, err := system.Dir().Lock()
	must(t, err)
	must(t, held.Check())
	must(t, os.Rename(at, away))
	if err := held.Check(); !errors.Is(err, disk.ErrMoved) {
		t.Errorf("a directory that was moved: %v", err)
	}
	other, err := disk.NewOS(at)
	must(t, err)
	if err := held.Check(); !errors.Is(err, disk.ErrMoved) {
		t.Errorf("a directory in the place of which is another: %v", err)
	}
	for name, system := range map[string]disk.FS{"a": system, "b": other} {
		f, err := system.Create("temporary")
		must(t, err)
		must(t, errors.Join(f.Close(), system.Rename("temporary", name)))
	}
	moved, err := system.Dir().Names()
	must(t, err)
	slices.Sort(moved)
	made, err := other.Dir().Names()
	must(t, err)
	if !slices.Equal(moved, []string{disk.LockName, "a"}) || !slices.Equal(made, []string{"b"}) {
		t.Errorf("the moved directory has %q, the other one %q", moved, made)
	}
	must(t, errors.Join(other.Remove("b"), other.Dir().Close(), os.Remove(at), os.Rename(away, at)))
	must(t, held.Check())
	must(t, errors.Join(held.Close(), system.Dir().Close()))
}

func TestTemporaryCausesAreRecognized(t *testing.T) {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.EROFS} {
		if !disk.IsPassing(&fs.PathError{Op: "write", Err: cause}) {
			t.Errorf("%v counts as damage", cause)
		}
	}
	if disk.IsPassing(syscall.EIO) {
		t.Error("EIO counts as a cause that passes")
	}
}

func TestLockFileStaysBesideOtherFiles(t *testing.T) {
	dir := t.TempDir()
	system, err := disk.NewOS(dir)
	must(t, err)
	t.Cleanup(func() { must(t, system.Dir().Close()) })
	held, err := system.Dir().Lock()
	must(t, err)
	f, err := system.Create("MANIFEST")
	must(t, err)
	must(t, f.Close())
	must(t, held.Close())
	for range 2 {
		if _, err := os.Stat(filepath.Join(dir, disk.LockName)); err != nil {
			t.Errorf("look at a file: %v", err)
		}
		held, err = system.Dir().Lock()
		must(t, err)
		must(t, held.Close())
	}
}

func TestUnlockRemovesItsFileFromAnUnchangedDirectory(t *testing.T) {
	dir := t.TempDir()
	system, err := disk.NewOS(dir)
	must(t, err)
	t.Cleanup(func() { must(t, system.Dir().Close()) })
	held, err := system.Dir().Lock()
	must(t, err)
	must(t, held.Close())
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

// TestOnlyOneHolderHasTheLock lets many take turns, each of which removes the file
// that the others wait for.
func TestOnlyOneHolderHasTheLock(t *testing.T) {
	system, err := disk.NewOS(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, system.Dir().Close()) })
	var inside, turns atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for turns.Load() < 500 {
				held, err := system.Dir().Lock()
				if _, locked := errors.AsType[*store.LockedError](err); locked {
					continue
				}
				if err != nil {
					t.Errorf("lock the directory: %v", err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				turns.Add(1)
				inside.Add(-1)
				if err := held.Close(); err != nil {
					t.Errorf("close the lock: %v", err)
				}
			}
		})
	}
	wg.Wait()
}
