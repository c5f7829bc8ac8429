package starts_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/starts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string, revision int64) *starts.History {
	t.Helper()
	h, err := starts.Open(dir, revision)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return h
}

func TestHistoryHoldsAnEarlierStartUpToTheNextOne(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir, 100)
	second := open(t, dir, 150)
	if !first.Holds(first.ID(), 1<<40) || !second.Holds(first.ID(), 150) || second.Since() != 150 {
		t.Error("a restart is taken for another history")
	}
	if second.Holds(first.ID(), 151) {
		t.Error("the first start told of 151, which the second did not find")
	}
	if first.Holds(second.ID(), 100) {
		t.Error("an earlier history holds what a later start told")
	}
}

func TestRestoredCopyIsAnotherHistory(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, 100)
	copied, err := os.ReadFile(filepath.Join(dir, "history.json"))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	lost := open(t, dir, 150)
	if err := os.WriteFile(filepath.Join(dir, "history.json"), copied, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if restored := open(t, dir, 120); restored.Holds(lost.ID(), 110) {
		t.Error("a start that the copy does not know is taken for one of its own")
	}
}

func TestHistoryIsEmptyWithoutADirectoryOrWithABrokenFile(t *testing.T) {
	if a, b := open(t, "", 1), open(t, "", 1); b.Holds(a.ID(), 1) {
		t.Error("two histories in memory are one")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "history.json"), []byte("{"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if h := open(t, dir, 7); !h.Holds(h.ID(), 7) {
		t.Error("a broken file")
	}
}
