package controllers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

const page = "docs/kwok.md"

// TestCommandsOfThePageWork runs the commands of the page in an empty directory, as one
// script that ends with the first one that fails. What follows "# →" must be part of what
// its command prints.
func TestCommandsOfThePageWork(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(harness.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	if flag := "'*," + impossible + "," + ownControllers + "'"; !strings.Contains(string(raw), flag) {
		t.Errorf("%s does not give kube-controller-manager %s, which is tested", page, flag)
	}
	programs := build(t)
	text, shown := script(string(raw))
	if shown < 8 {
		t.Errorf("%d commands show what they print, want at least 8: the page is not read as it should be", shown)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(harness.Root(), "compat"), filepath.Join(dir, "compat")); err != nil {
		t.Fatal(err)
	}
	// They are built already: the install commands only check that the names are right.
	shim := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*' install '*|'install '*) ln -sfn %s \"$GOBIN\" ;;\n*) exec %s \"$@\" ;;\nesac\n", programs, realGo(t))
	shims := t.TempDir()
	if err := os.WriteFile(filepath.Join(shims, "go"), []byte(shim), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+shims+":"+os.Getenv("PATH"), "HOME="+dir, "GOMODCACHE="+moduleCache(t), "GAPLESS_LISTEN=127.0.0.1:0")
	// A command that waits in vain ends with the test's context, and those in the background too.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// script makes a script of a page's commands, and counts those that show what they print.
func script(page string) (text string, shown int) {
	var b strings.Builder
	b.WriteString(`set -euo pipefail
trap 'kill $(jobs -p); wait' EXIT
shows() {
	local out
	out=$(cat)
	printf '%s\n' "$out"
	[[ $out == *"$1"* ]] || { printf 'the page says that this prints %s\n' "$1"; return 1; }
}
`)
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[1]) {
			command, prints, shows := strings.Cut(strings.TrimRight(line, "\n"), "# → ")
			if shows {
				shown++
				command = fmt.Sprintf("%s 2>&1 | shows %q", strings.TrimSpace(command), prints)
			}
			b.WriteString(command + "\n")
		}
	}
	return b.String(), shown
}

// realGo returns the path of the go command.
func realGo(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// moduleCache returns the directory of the module cache, wherever HOME is.
func moduleCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
