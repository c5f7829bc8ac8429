package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAddedResultsAreKeptAndShown: --add keeps the results of a file with the commit of the
// checkout, and writes the page.
func TestAddedResultsAreKeptAndShown(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatalf("make the directory of %s: %v", name, err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatalf("write %s: %v", name, err)
		}
		return path
	}
	record := write("bench/log/results.json", `{"runs": [{"date": "2026-01-01", "commit": "old", "machine": "m", "results": [
		{"case": "informer x", "work": "informer, x", "metric": "events", "gapless": 1, "goal": "≤ 3"}]}]}`)
	page := write("docs/performance.md", "")
	for _, command := range []string{
		"init -q", "add .", "-c user.name=a -c user.email=a@example.org -c commit.gpgsign=false commit -q -m first",
	} {
		cmd := exec.CommandContext(t.Context(), "git", strings.Fields(command)...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", command, err, out)
		}
	}
	added := write("added.json", `{"runs": [{"note": "again", "results": [
		{"case": "informer x", "work": "informer, x", "metric": "events", "gapless": 2, "goal": "≤ 3"}]}]}`)
	if err := run(t.Context(), []string{"--root", root, "--add", added}, io.Discard, io.Discard); err != nil {
		t.Fatalf("add: %v", err)
	}
	now, err := os.ReadFile(record)
	if err != nil {
		t.Fatalf("read the record: %v", err)
	}
	shown, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	if strings.Contains(string(now), `"old"`) || strings.Contains(string(now), `"commit": ""`) {
		t.Errorf("the record has what was measured before, or no commit:\n%s", now)
	}
	if want := "| informer, x: events | 2 | – | – | ≤ 3 | yes | 1 |"; !strings.Contains(string(shown), want) {
		t.Errorf("the page has no %q:\n%s", want, shown)
	}
}
