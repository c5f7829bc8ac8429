//go:build unix

package gaplesstest_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/gaplesstest"
)

// held is an environment variable that makes the test binary a suite that waits with its server:
// New or Main.
const held = "GAPLESS_TEST_HELD"

// hold says that there is a server, and waits for the end of the input.
func hold() {
	_, _ = os.Stdout.WriteString("there is a server\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it too
}

// waiting is a suite of Main.
type waiting struct{}

func (waiting) Run() int {
	hold()
	return 0
}

func TestTheNextSuiteRemovesWhatAKilledOneLeft(t *testing.T) { //nolint:paralleltest // it sets TMPDIR
	switch os.Getenv(held) {
	case "New":
		gaplesstest.New(t)
		hold()
		return
	case "Main":
		gaplesstest.Main(context.WithoutCancel(t.Context()), waiting{}, func(*gaplesstest.Server) {})
		return
	}
	in := t.TempDir()
	t.Setenv("TMPDIR", in)
	files := func() int {
		entries, err := os.ReadDir(in)
		if err != nil {
			t.Fatalf("list a directory: %v", err)
		}
		return len(entries)
	}
	for _, form := range []string{"New", "Main"} {
		killed := suite(t, form)
		if n := files(); n == 0 {
			t.Errorf("%s has no files", form)
		}
		killed()
		if n := files(); n != 1 {
			t.Errorf("%s left %d directories when it was killed", form, n)
		}
		t.Run("next", func(t *testing.T) { gaplesstest.New(t) })
		if n := files(); n != 0 {
			t.Errorf("after the next server %d directories of %s are left", n, form)
		}
	}
}

// suite starts a suite that waits with its server. killed kills it.
func suite(t *testing.T, form string) (killed func()) {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatalf("find the program: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), own, "-test.run=^TestTheNextSuiteRemovesWhatAKilledOneLeft$")
	cmd.Env = append(os.Environ(), held+"="+form)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatalf("stdin pipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	killed = func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	t.Cleanup(killed)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "there is a server") {
		t.Fatalf("the suite says %q, %v", line, err)
	}
	return killed
}
