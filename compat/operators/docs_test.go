package operators

import (
	"context"
	"errors"
	"fmt"
	"net"
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

const page = "docs/operators.md"

// commandsOfThePageWork runs the commands of the page in an empty directory, as one script that
// ends with the first one that fails. What follows "# →" must be part of what its command
// prints, whatever its exit code.
func commandsOfThePageWork(t *testing.T, bin string) {
	raw, err := os.ReadFile(filepath.Join(harness.Root(), page))
	if err != nil {
		t.Fatal(err)
	}
	text, shown := script(string(raw))
	if shown < 4 {
		t.Errorf("%d commands show what they print, want at least 4: the page is not read as it should be", shown)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(harness.Root(), "compat"), filepath.Join(dir, "compat")); err != nil {
		t.Fatal(err)
	}
	// They are built already: the install commands only make them the page's.
	install := "#!/bin/sh\ncase \"$*\" in\n*' install '*|'install '*) ln -sfn %s \"$GOBIN\" ;;\n*) exec %s \"$@\" ;;\nesac\n"
	shims := t.TempDir()
	if err := os.WriteFile(filepath.Join(shims, "go"), fmt.Appendf(nil, install, bin, output1(t, "which", "go")), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	// It took 8 s with the programs built, and 90 s on a machine that did ten other things. The
	// limit of `go test` would leave what it started.
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+shims+":"+os.Getenv("PATH"), "HOME="+dir, "GOWORK=auto", "GOMODCACHE="+output1(t, "go", "env", "GOMODCACHE"),
		"GAPLESS_LISTEN=127.0.0.1:0", "PORT="+freePort(t))
	out, err := runGroup(cmd)
	if err != nil {
		t.Errorf("the script: %v (%v):\n%s", err, context.Cause(ctx), out)
	}
}

// runGroup runs a command, and ends what it started: with it, or with its context.
func runGroup(cmd *exec.Cmd) ([]byte, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second // for what is asked to end: a server closes its files
	out, err := cmd.CombinedOutput()
	if cmd.Process != nil {
		// ESRCH: nothing is left, as it should be.
		if killed := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killed != nil && !errors.Is(killed, syscall.ESRCH) {
			err = errors.Join(err, killed)
		}
	}
	return out, err
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
				command = fmt.Sprintf("{ %s || true; } 2>&1 | shows %q", strings.TrimSpace(command), prints)
			}
			b.WriteString(command + "\n")
		}
	}
	return b.String(), shown
}

// output1 returns the first line that a command prints.
func output1(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// freePort returns a port that was free just now: the page has a number for the webhook.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return port
}
