//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package scratch_test

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/scratch"
)

// start starts a process that does a task (TestMain), and returns what it has, once it has it.
func start(t *testing.T, what string) (cmd *exec.Cmd, path string) {
	t.Helper()
	cmd, has := begin(t, what)
	return cmd, has()
}

// begin starts a process as start does, and does not wait until has is called.
func begin(t *testing.T, what string) (cmd *exec.Cmd, has func() string) {
	t.Helper()
	own, err := os.Executable()
	must(t, err)
	cmd = exec.CommandContext(t.Context(), own)
	cmd.Env = append(os.Environ(), task+"="+what)
	_, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	return cmd, func() string {
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || strings.HasPrefix(line, "error") {
			t.Fatalf("the process says %q, %v", line, err)
		}
		return strings.TrimSpace(line)
	}
}

// kill kills a process and waits for its end.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // it was killed
}

func there(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheNextProcessRemovesWhatAKilledOneLeft(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	killed, left := start(t, "make")
	_, used := start(t, "make")
	if !there(t, left) {
		t.Fatal("the second process removes what the first one uses")
	}
	kill(killed)
	if !there(t, left) {
		t.Fatal("nothing is left to remove")
	}
	start(t, "make")
	if there(t, left) || !there(t, used) {
		t.Errorf("left is there: %t, used: %t", there(t, left), there(t, used))
	}
}

func TestRacingProcessesRemoveNothingOfEachOther(t *testing.T) {
	in := t.TempDir()
	t.Setenv("TMPDIR", in)
	var all []func() string
	for range 4 {
		_, has := begin(t, "race")
		all = append(all, has)
	}
	for _, has := range all {
		has() // once it has made and removed all
	}
	if left, err := os.ReadDir(in); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestOnlyWhatWasLockedIsRemoved puts into the temporary directory what others may have there.
func TestOnlyWhatWasLockedIsRemoved(t *testing.T) {
	in := t.TempDir()
	text := "used by gapless; removed once it is gone\n"
	for name, mark := range map[string]string{
		"gapless-none": "", "gapless-begun": "", "gapless-left": text, "gapless-half": text + "17",
		"gapless-strange": text + "?\n", "other": text,
	} {
		must(t, os.Mkdir(filepath.Join(in, name), 0o700))
		if name != "gapless-none" {
			must(t, os.WriteFile(filepath.Join(in, name, scratch.MarkName), []byte(mark), 0o600))
		}
	}
	must(t, os.Symlink(filepath.Join(in, "other"), filepath.Join(in, "gapless-link")))
	scratch.Clean(in, "gapless-")
	entries, err := os.ReadDir(in)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names,
		" "), "gapless-begun gapless-half gapless-link gapless-none gapless-strange other"; got != want {
		t.Errorf("there are %s, want %s", got, want)
	}
}

func TestAnAdoptedDirectoryStaysWhileItsOwnerLives(t *testing.T) {
	in := t.TempDir()
	dir := filepath.Join(in, "theirs")
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "known"), nil, 0o600))
	owner, _ := start(t, "wait")
	mine, err := scratch.Adopt(dir, owner.Process.Pid, "known")
	must(t, err)
	scratch.Clean(in, "theirs")
	if !there(t, dir) {
		t.Fatal("it is removed while it is in use")
	}
	must(t, mine.Release())
	scratch.Clean(in, "theirs")
	if !there(t, dir) {
		t.Fatal("it is removed while its owner lives")
	}
	mine, err = scratch.Adopt(dir, owner.Process.Pid) // by the next process in it
	must(t, err)
	kill(owner)
	scratch.Clean(in, "theirs")
	if !there(t, dir) {
		t.Fatal("it is removed while it is in use, and its owner has ended")
	}
	must(t, mine.Release())
	scratch.Clean(in, "theirs")
	if there(t, dir) {
		t.Error("it stays")
	}
}

func TestADirectoryWithFilesOfOthersIsNotAdopted(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "thesis"), nil, 0o600))
	if _, err := scratch.Adopt(dir, os.Getppid(), "known"); !errors.Is(err, scratch.ErrNotAdopted) {
		t.Errorf("error %v, want ErrNotAdopted", err)
	}
	if there(t, filepath.Join(dir, scratch.MarkName)) {
		t.Error("it is marked")
	}
	used := t.TempDir()
	start(t, used)
	if _, err := scratch.Adopt(used, os.Getppid()); !errors.Is(err, scratch.ErrNotAdopted) {
		t.Errorf("of one that another process uses: error %v, want ErrNotAdopted", err)
	}
}

// TestCleaningIsBounded: a start waits for few removals, and what is over is for the next ones.
func TestCleaningIsBounded(t *testing.T) {
	in := t.TempDir()
	const all = 50
	for i := range all {
		dir := filepath.Join(in, "gapless-"+strings.Repeat("x", i+1))
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, scratch.MarkName), []byte("used\n"), 0o600))
	}
	for _, want := range []int{30, 10, 0} {
		scratch.Clean(in, "gapless-")
		if left, err := os.ReadDir(in); err != nil || len(left) != want {
			t.Errorf("%d are left, want %d (%v)", len(left), want, err)
		}
	}
}

func BenchmarkCleanWithNothingToRemove(b *testing.B) {
	in := b.TempDir()
	for i := range 1000 {
		if err := os.Mkdir(filepath.Join(in, time.Duration(i).String()), 0o700); err != nil {
			b.Fatalf("make a directory: %v", err)
		}
	}
	for b.Loop() {
		scratch.Clean(in, "gapless-")
	}
}
