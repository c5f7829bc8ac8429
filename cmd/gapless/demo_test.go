package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestDemoProvesThatTheInformerIsRight(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	code, out, stderr := command(t, "demo", "--changes", "60")
	if code != exitOK {
		t.Fatalf("exit code %d:\n%s%s", code, out, stderr)
	}
	for _, want := range []string{
		`(?s)1 Both watch\.\n +60 changes    60 events +60 events\n +up to date +up to date\n2 Both`,
		`(?s)2 Both are disconnected.*60 changes    60 events +60 events\n +up to date +up to date\n3 Both`,
		`(?s)3 Both are disconnected.*60 changes    0 events +[1-9][0-9]* events\n +410 Gone: stopped +410 ` +
			`Gone: listed again \(1\)`,
		`too old resource version: `,
		`[1-9][0-9]* wrong, and stay wrong +equal to the server\n +Wrong are objects`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("the demo does not print %q:\n%s", want, out)
		}
	}
	if strings.ContainsAny(out, "\x1b\r") {
		t.Errorf("control characters without a terminal: %q", out)
	}
}

// TestDemoEndsWithAnyNumberOfChanges uses small numbers: with them the writer once
// created objects and replaced none, so that compaction removed nothing and the demo
// waited for a 410 forever.
func TestDemoEndsWithAnyNumberOfChanges(t *testing.T) {
	for _, changes := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 50, 101} {
		t.Run(fmt.Sprint(changes), func(t *testing.T) {
			t.Parallel()
			if code, out, stderr := command(t, "demo", "--changes", fmt.Sprint(changes)); code != exitOK {
				t.Errorf("exit code %d:\n%s%s", code, out, stderr)
			}
		})
	}
}

// TestDemoLeavesNoFilesWhenItsReaderHasGone is `gapless demo | head -1`.
func TestDemoLeavesNoFilesWhenItsReaderHasGone(t *testing.T) {
	temporary := t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	cmd := process(t, temporary, "demo")
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil { // it has begun
		t.Fatalf("read: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != exitRunTime || stderr.Len() > 0 {
		t.Errorf("it ended with %v and said %q, want exit code %d and silence", err, stderr.String(), exitRunTime)
	}
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v behind, %v", left, err)
	}
}
