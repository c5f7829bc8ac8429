package backup_test

import (
	"errors"
	"maps"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/internal/backup"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/fsck"
)

// TestARestoredLogSurvivesItsFirstMerges restores a backup, which has its objects in the order of their keys, in
// many runs, merges what was restored twice, and starts after each merge. A merge takes what was written meanwhile, too.
func TestARestoredLogSurvivesItsFirstMerges(t *testing.T) {
	log := openLog(t, revlog.Options{Memory: true})
	a := newAuthor(log, 11)
	a.writes(t, 600)
	dir, _ := restored(t, taken(t, log, false), backup.RestoreOptions{RunBytes: 4 << 10})
	at := filepath.Join(dir, "log")
	for range 2 {
		purge(t, at)
		want := a.at(a.last)
		report, err := fsck.Run(t.Context(), at, fsck.Options{})
		if err != nil || len(report.Problems) > 0 || report.Objects != len(want) {
			t.Fatalf("fsck after a merge: %+v, %v", report, err)
		}
		open, end := opened(t, at)
		if got := held(t, open); !maps.Equal(got, want) {
			t.Errorf("after a merge and a start it has %d objects, want %d", len(got), len(want))
		}
		a.log = open
		a.writes(t, 50)
		end()
	}
}

// purge opens a log, compacts its whole history, and frees its disk space at once.
func purge(t *testing.T, dir string) {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Dir: dir, SegmentBytes: 16 << 10})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(t.Context()) }() // ends with Close
	if _, err := log.Compact(t.Context(), store.Compaction{OlderThan: 1, Purge: true}); err != nil {
		t.Errorf("purge the log: %v", err)
	}
	if err := errors.Join(log.Close(), <-ended); err != nil {
		t.Fatalf("close the log: %v", err)
	}
}
