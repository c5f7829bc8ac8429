package disk_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
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
		t.Fatal(err)
	}
	return map[string]disk.FS{"os": onDisk, "memory": disk.NewMemory()}
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

func TestFullDisksAreKnown(t *testing.T) {
	if !disk.IsNoSpace(&fs.PathError{Op: "write", Err: syscall.ENOSPC}) || disk.IsNoSpace(syscall.EIO) {
		t.Error("ENOSPC and EIO are mistaken")
	}
}
