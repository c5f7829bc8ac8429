package operators

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

const (
	page    = "docs/operators.md"
	section = "Operators with webhooks"
)

// commandsOfThePageWork runs the commands of the section in an empty directory, as one script that
// ends with the first one that fails. What follows "# →" must be part of what its command
// prints, whatever its exit code.
func commandsOfThePageWork(t *testing.T, bin string) {
	raw, err := os.ReadFile(filepath.Join(harness.Root(), page))
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	refused := func(prints string) bool { return strings.Contains(prints, "Required value") }
	text, shown := harness.Commands(harness.Section(string(raw), section), refused)
	if shown < 4 {
		t.Errorf("%d commands show what they print, want at least 4: the page is not read as it should be", shown)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(harness.Root(), "compat"), filepath.Join(dir, "compat")); err != nil {
		t.Fatalf("make a link: %v", err)
	}
	// They are built already: the install commands only make them the page's.
	install := "#!/bin/sh\ncase \"$*\" in\n*' install '*|'install '*) ln -sfn %s \"$GOBIN\" ;;\n*) exec %s \"$@\" ;;\nesac\n"
	shims := t.TempDir()
	shim := fmt.Appendf(nil, install, bin, output1(t, "which", "go"))
	if err := os.WriteFile(filepath.Join(shims, "go"), shim, 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatalf("write a file: %v", err)
	}
	// It took 8 s with the programs built, and 90 s on a machine that did ten other things. The
	// limit of `go test` would leave what it started.
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+shims+":"+os.Getenv("PATH"), "HOME="+dir, "GOWORK=auto",
		"GOMODCACHE="+output1(t, "go", "env", "GOMODCACHE"), "GAPLESS_LISTEN=127.0.0.1:0", "PORT="+freePort(t))
	out, err := harness.RunGroup(cmd)
	if err != nil {
		t.Errorf("the script: %v (%v):\n%s", err, context.Cause(ctx), out)
	}
}

// output1 returns the first line that a command prints.
func output1(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// freePort returns a port that was free just now: the page has a number for the webhook.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	if err != nil {
		t.Fatalf("split an address: %v", err)
	}
	return port
}
