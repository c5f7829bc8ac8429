package backup_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// refused restores into a directory in which another restore works.
func refused(t *testing.T, when string, file []byte, dir string) {
	t.Helper()
	_, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: dir})
	if _, is := errors.AsType[*store.LockedError](err); !is {
		t.Errorf("a second restore %s: %v", when, err)
	}
}

// TestARestoreIsAloneUntilItsLogHasItsName: from before it opens the directory of the log until after that is closed,
// which on Windows is before it can be moved or removed.
func TestARestoreIsAloneUntilItsLogHasItsName(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 12)
	a.writes(t, 50)
	file := taken(t, log, false)
	for _, whole := range []bool{true, false} {
		dir, closed := filepath.Join(t.TempDir(), "data"), 0
		from := file
		if !whole {
			from = file[:len(file)-1]
		}
		_, err := backup.Restore(t.Context(), bytes.NewReader(from), backup.RestoreOptions{
			Dir: dir, FS: func(place string) (disk.FS, error) {
				refused(t, "that begins with it", file, dir)
				files, err := disk.NewOS(place)
				return watchedFS{FS: files, closed: func() {
					closed++
					if _, err := os.Stat(filepath.Join(dir, "log")); !errors.Is(err, os.ErrNotExist) {
						t.Errorf("the log has its name before it is closed: %v", err)
					}
					refused(t, "before the log has its name", file, dir)
				}}, err
			},
		})
		if (err == nil) != whole || closed != 1 {
			t.Errorf("a file that is whole (%t): %v; the directory was closed %d times", whole, err, closed)
		}
		if !whole {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a directory stays after an error: %v", err)
			}
			continue
		}
		names, err := os.ReadDir(dir)
		if err != nil || len(names) != 1 {
			t.Errorf("the data directory has %v, %v", names, err)
		}
		_, err = backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: dir})
		if !errors.Is(err, backup.ErrNotEmpty) {
			t.Errorf("a second restore after the first: %v", err)
		}
		open, end := opened(t, filepath.Join(dir, "log"))
		if got := held(t, open); !maps.Equal(got, a.at(a.last)) {
			t.Errorf("the log has %d objects, want %d", len(got), len(a.at(a.last)))
		}
		end()
	}
}

// watchedFS is a directory that says when it is closed.
type watchedFS struct {
	disk.FS

	closed func()
}

// Dir implements disk.FS.
func (w watchedFS) Dir() disk.Dir { return watchedDir{w.FS.Dir(), w.closed} }

type watchedDir struct {
	disk.Dir

	closed func()
}

// Close implements disk.Dir.
func (w watchedDir) Close() error {
	err := w.Dir.Close()
	w.closed()
	return err
}
