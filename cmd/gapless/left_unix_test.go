//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// ready starts a server whose temporary files go to a directory, and returns it when it is ready.
func ready(t *testing.T, temporary string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ready.json")
	cmd := process(t, temporary, "serve", "--memory", "--listen", "127.0.0.1:0", "--ready-file", file)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	t.Cleanup(func() { kill(cmd) })
	eventually(t, "the server is ready", func() bool { _, err := os.Stat(file); return err == nil })
	return cmd
}

// kill kills a process, and waits for its end.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // it was killed
}

func TestTheNextServerRemovesWhatKilledOnesLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
	temporary := t.TempDir()
	left := func() []string {
		entries, err := filepath.Glob(filepath.Join(temporary, "*"))
		if err != nil {
			t.Fatalf("look for files: %v", err)
		}
		return entries
	}
	ready(t, temporary)
	before := left()
	killed := ready(t, temporary)
	kill(killed)
	if got := left(); len(before) != 1 || len(got) != 2 {
		t.Errorf("left are %q, before %q", got, before)
	}
	if out, err := process(t, temporary, "demo", "--changes", "1").CombinedOutput(); err != nil {
		t.Errorf("demo: %v: %s", err, out)
	}
	if got := left(); !slices.Equal(got, before) {
		t.Errorf("there are %q, want those of the server that runs: %q", got, before)
	}
}
