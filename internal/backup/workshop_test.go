package backup_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// TestARestoreLeavesTheLogOfAnotherAlone opens the directory in which another restore works, and goes on, with a
// damaged file, when that has ended.
func TestARestoreLeavesTheLogOfAnotherAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a directory that is open cannot be moved there")
	}
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 12)
	a.writes(t, 50)
	file, dir := taken(t, log, false), filepath.Join(t.TempDir(), "data")
	_, err := backup.Restore(t.Context(), bytes.NewReader(file[:len(file)-1]), backup.RestoreOptions{
		Dir: dir, FS: func(place string) (disk.FS, error) {
			files, err := disk.NewOS(place)
			_, other := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: dir})
			return files, errors.Join(err, other)
		},
	})
	if err == nil || isDamaged(err) {
		t.Errorf("the one that goes on: %v", err)
	}
	open, end := opened(t, filepath.Join(dir, "log"))
	defer end()
	if got := held(t, open); !maps.Equal(got, a.at(a.last)) {
		t.Errorf("the log of the other one has %d objects, want %d", len(got), len(a.at(a.last)))
	}
}

// TestARestoreIsAloneUntilItsLogHasItsName: also until what is of no use was removed.
func TestARestoreIsAloneUntilItsLogHasItsName(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a directory with an open file is neither moved nor removed there")
	}
	file := small(t)
	for _, whole := range []bool{true, false} {
		dir, released := filepath.Join(t.TempDir(), "data"), 0
		from := file
		if !whole {
			from = file[:len(file)-1]
		}
		_, err := backup.Restore(t.Context(), bytes.NewReader(from), backup.RestoreOptions{
			Dir: dir, FS: func(place string) (disk.FS, error) {
				files, err := disk.NewOS(place)
				return watchedFS{FS: files, released: func() {
					released++
					if _, err := os.Stat(place); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the lock is released before the directory is settled: %v", err)
					}
					if _, err := os.Stat(filepath.Join(dir, "log", "MANIFEST")); (err == nil) != whole {
						t.Errorf("of a file that is whole (%t), at the end of the lock: %v", whole, err)
					}
				}}, err
			},
		})
		if (err == nil) != whole || released != 1 {
			t.Errorf("a file that is whole (%t): %v; the lock was released %d times", whole, err, released)
		}
	}
}

// watchedFS is a directory that says when its lock is released.
type watchedFS struct {
	disk.FS

	released func()
}

// Dir implements disk.FS.
func (w watchedFS) Dir() disk.Dir { return watchedDir{w.FS.Dir(), w.released} }

type watchedDir struct {
	disk.Dir

	released func()
}

// Lock implements disk.Dir.
func (w watchedDir) Lock() (disk.Held, error) {
	lock, err := w.Dir.Lock()
	return watchedLock{lock, w.released}, err
}

type watchedLock struct {
	disk.Held

	released func()
}

// Close implements disk.Held.
func (w watchedLock) Close() error {
	w.released()
	return w.Held.Close()
}
