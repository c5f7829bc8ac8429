package crash_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gapless-io/gapless/conformance/crash"
)

// TestKilledServerLosesNoAcknowledgedWriteAndNoWatcherMissesAChange kills the
// program at random moments, with 64 writers and 16 watchers on it.
func TestKilledServerLosesNoAcknowledgedWriteAndNoWatcherMissesAChange(t *testing.T) {
	dir, err := os.MkdirTemp("", "gapless-crash-") //nolint:usetesting // it is kept if the test fails, with the histories
	if err != nil {
		t.Fatalf("make a directory: %v", err)
	}
	report, err := crash.Run(t.Context(), crash.Config{
		Program: built, Dir: dir, Kills: *kills, Seed: *seed, Out: t.Output(),
		Writers: 64, Readers: 6, Pause: 60 * time.Millisecond,
	})
	t.Logf("seed %d\n%s", *seed, report)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if report.Violations > 0 || report.Undecided > 0 {
		t.Errorf("%d violations, %d undecided histories (go test -seed %d)", report.Violations, report.Undecided, *seed)
	}
	if report.Acknowledged == 0 || report.Events == 0 || report.Lists == 0 || report.Operations == 0 {
		t.Error("nothing was done, so nothing was tested")
	}
	if t.Failed() {
		t.Logf("data, log and histories are in %s", dir)
	} else if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// TestCheckDetectsAServerThatLostAcknowledgedWrites puts old data back between a kill and a
// restart, as if the server had lost what it acknowledged since.
func TestCheckDetectsAServerThatLostAcknowledgedWrites(t *testing.T) {
	dir := t.TempDir()
	data, old := filepath.Join(dir, "data"), filepath.Join(t.TempDir(), "old")
	report, err := crash.Run(t.Context(), crash.Config{
		Program: built, Dir: dir, Kills: 5, Seed: *seed, Out: io.Discard, Writers: 8, Pause: 20 * time.Millisecond,
		AfterKill: func(n int) {
			var err error
			switch n {
			case 2:
				err = os.CopyFS(old, os.DirFS(data))
			case 5:
				err = errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(old)))
			}
			if err != nil {
				t.Error(err)
			}
		},
	})
	if report.Violations == 0 {
		t.Errorf("no violation was found; the run ended with %v", err)
	}
	t.Logf("%d violations; the run ended with %v", report.Violations, err)
}
