package backup_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/build"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

func TestARestoredLogHasTheSameObjectsAboveAllRevisions(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 5)
	a.writes(t, 400)
	for _, history := range []bool{false, true} {
		file := taken(t, log, history)
		for _, runBytes := range []int{0, 4 << 10} { // one segment, and many
			dir, done := restored(t, file, backup.RestoreOptions{Bump: 5000, RunBytes: runBytes})
			if done.Revision != a.last+5000 || done.At != a.last {
				t.Fatalf("restored %+v, want revision %d", done, a.last+5000)
			}
			at := filepath.Join(dir, "log")
			report, err := fsck.Run(t.Context(), at, fsck.Options{})
			if err != nil || len(report.Problems) > 0 || report.Revision != done.Revision || report.Objects != len(a.at(a.last)) {
				t.Fatalf("fsck: %+v, %v", report, err)
			}
			for range 2 { // also after a start
				checkRestored(t, at, a)
			}
		}
	}
}

// checkRestored opens a restored log, and writes to it.
func checkRestored(t *testing.T, dir string, a *author) {
	t.Helper()
	open, end := opened(t, dir)
	defer end()
	first, err := open.Progress(t.Context())
	if err != nil || first < a.last+5000 {
		t.Fatalf("it begins at %d, %v", first, err)
	}
	got := held(t, open)
	delete(got, "leases/new/one")
	if !maps.Equal(got, a.at(a.last)) {
		t.Errorf("it has %d objects, want %d", len(got), len(a.at(a.last)))
	}
	for _, revision := range []int64{1, a.last - 1, a.last, a.last + 1, a.last + 4999} {
		for _, prefix := range []string{"", "pods/", "nobody/"} {
			_, err := open.Changes(t.Context(), store.From{Prefix: prefix, After: revision})
			compacted, is := errors.AsType[*store.CompactedError](err)
			if !is || compacted.Reason != "replaced" || compacted.Floor != a.last+5000 {
				t.Errorf("changes of %q after %d: %v", prefix, revision, err)
			}
		}
		_, err := open.Read(t.Context(), store.Query{Start: "pods/", End: "pods0", AtRevision: revision})
		if _, is := errors.AsType[*store.CompactedError](err); !is {
			t.Errorf("a read at %d: %v", revision, err)
		}
	}
	var expected int64
	if page, err := open.Read(t.Context(), store.Query{Start: "leases/new/one"}); err == nil && len(page.Records) == 1 {
		expected = page.Records[0].ModRevision
	}
	done, err := open.Commit(t.Context(), store.Txn{Key: "leases/new/one", Value: []byte("x"), ExpectedModRevision: expected})
	if err != nil || done.Revision != first+1 {
		t.Errorf("the next write gets %d, %v; want %d", done.Revision, err, first+1)
	}
}

// opened opens a log that the caller ends.
func opened(t *testing.T, dir string) (log *revlog.Log, end func()) {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Dir: dir})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(t.Context()) }() // ends with Close
	return log, func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("close the log: %v", err)
		}
	}
}

// TestARestoreBeginsAboveAllServersBefore restores a backup, one of the restored server, and the first one again.
func TestARestoreBeginsAboveAllServersBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)))
		log := openLog(t, revlog.Options{Memory: true})
		newAuthor(log, 6).writes(t, 10)
		file := taken(t, log, false)
		var given int64 // the last revision that any server has given out
		restore := func(file []byte) string {
			t.Helper()
			<-time.After(time.Minute)
			dir, done := restored(t, file, backup.RestoreOptions{})
			if done.Revision <= given || done.Revision > 999_999_999_999_999 {
				t.Errorf("it begins at %d, want more than %d and fifteen digits", done.Revision, given)
			}
			given = done.Revision + 50_000_000 // which it writes in a minute
			return dir
		}
		for range 3 {
			dir := restore(file)
			<-time.After(time.Second)
			open, end := opened(t, filepath.Join(dir, "log"))
			of := taken(t, open, false)
			end()
			restore(of)
		}
	})
}

// TestARestoreBeginsAboveItsBackup: also with a clock that is wrong, and after revisions that are larger than
// any clock says.
func TestARestoreBeginsAboveItsBackup(t *testing.T) {
	for _, base := range []int64{0, 1 << 60} {
		log := openLog(t, revlog.Options{Memory: true, BaseRevision: base})
		newAuthor(log, 6).writes(t, 10)
		file := taken(t, log, false)
		h, _, err := readAll(bytes.NewReader(file))
		if err != nil {
			t.Fatalf("read the backup: %v", err)
		}
		for _, now := range []time.Time{time.UnixMilli(0), h.Made.Add(-time.Hour), h.Made.Add(365 * 24 * time.Hour)} {
			_, done := restored(t, file, backup.RestoreOptions{Now: func() time.Time { return now }})
			if least := h.Revision + 1_000_000_000 + max(now.Sub(h.Made), 0).Microseconds(); done.Revision < least {
				t.Errorf("at %v it begins at %d, want %d at least", now, done.Revision, least)
			}
		}
	}
}

// TestARestoreIsCompleteOrNothing lets each operation on the disk fail in turn, and damages the file.
func TestARestoreIsCompleteOrNothing(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	newAuthor(log, 7).writes(t, 20)
	file := taken(t, log, false)
	ops := 0
	for failAt := 1; ; failAt++ {
		dir := filepath.Join(t.TempDir(), "a", "data")
		ops = 0
		_, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{
			Dir: dir, RunBytes: 4 << 10, FS: func(dir string) (disk.FS, error) {
				fs, err := disk.NewOS(dir)
				return full{FS: fs, left: func() bool { ops++; return ops != failAt }}, err
			},
		})
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("operation %d fails: %v", failAt, err)
		}
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("operation %d fails: the directory stays: %v", failAt, err)
		}
	}
	if ops < 10 {
		t.Errorf("only %d operations were tried", ops)
	}
	for _, damaged := range [][]byte{file[:len(file)-1], append(bytes.Clone(file[:len(file)-1]), file[len(file)-1]^1)} {
		dir := filepath.Join(t.TempDir(), "data")
		_, err := backup.Restore(t.Context(), bytes.NewReader(damaged), backup.RestoreOptions{Dir: dir})
		if _, statErr := os.Stat(dir); !isDamaged(err) || !errors.Is(statErr, os.ErrNotExist) {
			t.Errorf("a damaged file: %v; the directory: %v", err, statErr)
		}
	}
}

// full is a directory on a disk that is full when left says so.
type full struct {
	disk.FS

	left func() bool
}

func (f full) Create(name string) (disk.File, error) {
	if !f.left() {
		return nil, syscall.ENOSPC
	}
	file, err := f.FS.Create(name)
	return fullFile{file, f.left}, err
}

func (f full) Rename(from, to string) error {
	if !f.left() {
		return syscall.ENOSPC
	}
	return f.FS.Rename(from, to)
}

// fullFile is a file of such a directory.
type fullFile struct {
	disk.File

	left func() bool
}

func (f fullFile) WriteAt(p []byte, off int64) (int, error) {
	if !f.left() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

func (f fullFile) Allocate(size int64) error {
	if !f.left() {
		return syscall.ENOSPC
	}
	return f.File.Allocate(size)
}

func (f fullFile) Sync() error {
	if !f.left() {
		return syscall.ENOSPC
	}
	return f.File.Sync()
}

func TestARestoreNeedsAnEmptyDirectory(t *testing.T) {
	file := small(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: dir}); !errors.Is(err,
		backup.ErrNotEmpty) {
		t.Errorf("a directory with a file: %v", err)
	}
	used, _ := restored(t, file, backup.RestoreOptions{})
	if _, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: used}); !errors.Is(err,
		backup.ErrNotEmpty) {
		t.Errorf("a directory that was restored: %v", err)
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: t.TempDir()}); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
}

// TestARestoreReplacesOneThatWasKilled: its lock has ended with the process.
func TestARestoreReplacesOneThatWasKilled(t *testing.T) {
	file := small(t)
	dir := t.TempDir()
	unfinished := filepath.Join(dir, build.Unfinished)
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	for _, name := range []string{filepath.Join(unfinished, "base-00000002.log"), filepath.Join(dir, disk.LockName)} {
		if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	running, err := disk.NewOS(dir)
	if err != nil {
		t.Fatalf("open the directory: %v", err)
	}
	lock, err := running.Dir().Lock()
	if err != nil {
		t.Fatalf("lock the directory: %v", err)
	}
	_, err = backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: dir})
	if _, locked := errors.AsType[*store.LockedError](err); !locked {
		t.Errorf("beside a restore that runs: %v", err)
	}
	if err := errors.Join(lock.Close(), running.Dir().Close()); err != nil {
		t.Fatalf("unlock the directory: %v", err)
	}
	if _, err := backup.Restore(t.Context(), bytes.NewReader(file), backup.RestoreOptions{Dir: dir}); err != nil {
		t.Fatalf("after one that was killed: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "log" {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	log, end := opened(t, filepath.Join(dir, "log"))
	defer end()
	if keys := slices.Sorted(maps.Keys(held(t, log))); !slices.Equal(keys, []string{"pods/a/1", "secrets/a/1"}) {
		t.Errorf("the log has %q", keys)
	}
}
