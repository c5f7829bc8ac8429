package controllers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	page    = "docs/operators.md"
	section = "Deployments that roll out"
)

// TestCommandsOfThePageWork runs the commands of the section in an empty directory, as one
// script that ends with the first one that fails. What follows "# →" must be part of what
// its command prints.
func TestCommandsOfThePageWork(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(harness.Root(), page))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	commands := harness.Section(string(raw), section)
	off := strings.ReplaceAll(commands, "\noff=$off,", ",") // it is made in several lines
	flag := "\noff=" + impossible + "," + ownControllers + "\n"
	if !strings.Contains(off, flag) || !strings.Contains(off, `--controllers="*,$off"`) {
		t.Errorf("%s does not turn off kube-controller-manager's %s, which is tested", page, flag)
	}
	programs := build(t)
	text, shown := harness.Commands(commands, nil)
	if shown < 8 {
		t.Errorf("%d commands show what they print, want at least 8: the page is not read as it should be", shown)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(harness.Root(), "compat"), filepath.Join(dir, "compat")); err != nil {
		t.Fatalf("make a link: %v", err)
	}
	// They are built already: the install commands only check that the names are right.
	shim := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in\n*' install '*|'install '*) ln -sfn %s \"$GOBIN\" ;;\n"+
		"*) exec %s \"$@\" ;;\nesac\n", programs, realGo(t))
	shims := t.TempDir()
	if err := os.WriteFile(filepath.Join(shims, "go"), []byte(shim), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatalf("write a file: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+shims+":"+os.Getenv("PATH"), "HOME="+dir, "GOMODCACHE="+moduleCache(t),
		"GAPLESS_LISTEN=127.0.0.1:0")
	if out, err := harness.RunGroup(cmd); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// realGo returns the path of the go command.
func realGo(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("look for a program: %v", err)
	}
	return path
}

// moduleCache returns the directory of the module cache, wherever HOME is.
func moduleCache(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	return strings.TrimSpace(string(out))
}
