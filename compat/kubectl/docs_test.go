package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gapless-io/gapless/compat/harness"
)

// TestCommandsInDocsWork runs the shell snippets of a page one after
// the other, as a newcomer does, in an empty directory. What follows "# →" must be
// printed, at once or a moment later; a block that begins with "$" must be what its
// command prints. In both, … stands for anything.
func TestCommandsInDocsWork(t *testing.T) {
	bin := t.TempDir()
	for _, pkg := range []string{"cmd/gapless", "examples/nodelabels", "examples/configsync"} {
		if _, err := harness.Build(t.Context(), bin, harness.Root(), pkg); err != nil {
			t.Fatalf("build: %v", err)
		}
	}
	if err := os.Symlink(filepath.Join(build(t, newest.dir), "kubectl"), filepath.Join(bin, "kubectl")); err != nil {
		t.Fatalf("link kubectl: %v", err)
	}
	// "go run ./cmd/gapless" is the program that was built from it.
	shim := "#!/bin/sh\ntest \"$1\" = run || exit 2\nprogram=$(basename \"$2\")\nshift 2\nexec \"$program\" \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(shim), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatalf("write a file: %v", err)
	}
	for page, least := range map[string]int{
		"README.md": 12, "examples/README.md": 14, "docs/encryption.md": 18, "docs/history.md": 15, "docs/tour.md": 22,
	} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(harness.Root(), page))
			if err != nil {
				t.Fatalf("read a file: %v", err)
			}
			s := openShell(t, bin)
			// The address of a relay, which its clients must know, is one that is free.
			text = bytes.ReplaceAll(text, []byte("127.0.0.1:8443"), []byte("127.0.0.1:"+harness.FreePort(t)))
			ran := 0
			for _, block := range regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
				if block[1] == "console" {
					s.console(block[2])
					ran++
					continue
				}
				for _, command := range commands(block[2]) {
					if s.do(command) {
						ran++
					}
				}
			}
			if ran < least {
				t.Errorf("%d commands were run, want at least %d: the page is not read as it should be", ran, least)
			}
		})
	}
}

// command is one of a page, and what it prints.
type command struct{ line, prints string }

// commands splits a block. A line that is an arrow only belongs to the one before.
func commands(block string) []command {
	var all []command
	document := ""
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		if document != "" { // of a here-document
			all[len(all)-1].line += "\n" + line
			if line == document {
				document = ""
			}
			continue
		}
		before, prints, _ := strings.Cut(line, "# → ")
		before, _, _ = strings.Cut(before, "  #")
		if before = strings.TrimSpace(before); before == "" {
			all[len(all)-1].prints = prints
			continue
		}
		all = append(all, command{line: before, prints: prints})
		if m := regexp.MustCompile(`<<'?(\w+)'?$`).FindStringSubmatch(before); m != nil {
			document = m[1]
		}
	}
	return all
}

// shell is a bash that stays, so that what one command sets the next one has.
type shell struct {
	t     *testing.T
	dir   string
	in    io.Writer
	lines chan string // of its output
	n     int         // commands so far
}

func openShell(t *testing.T, bin string) *shell {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(harness.Root(), "examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatalf("make a link: %v", err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "bash")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+dir, "KUBECONFIG=gapless-data/kubeconfig",
		"GAPLESS_LISTEN=127.0.0.1:0", "NO_COLOR=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("stdin pipe: %v", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("stdout pipe: %v", err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	s := &shell{t: t, dir: dir, in: in, lines: make(chan string)}
	go func() { // ends with the shell's output, which the cleanup reads to its end
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_, _ = io.WriteString(in, "kill $(jobs -p)\nwait\nexit\n") // if it has ended, that is well
		for range s.lines {                                        // until it has
		}
		_ = cmd.Wait() // its last command was a kill
	})
	return s
}

// run runs a command and returns what it printed and its exit code.
func (s *shell) run(line string) (out, code string) {
	s.t.Helper()
	s.n++
	mark := fmt.Sprintf("== end of %d: ", s.n)
	if _, err := fmt.Fprintf(s.in, "%s\necho; echo \"%s$?\"\n", line, mark); err != nil {
		s.t.Fatalf("print: %v", err)
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		select {
		case text, open := <-s.lines:
			if !open {
				s.t.Fatalf("the shell has ended in %q", line)
			}
			if code, is := strings.CutPrefix(text, mark); is {
				return strings.TrimRight(out, "\n"), code
			}
			out += text + "\n"
		case <-limit.C:
			s.t.Fatalf("%q goes on for a minute; so far it has printed\n%s", line, out)
		}
	}
}

// do runs a command of a page, unless it is one that CI runs already. A command that keeps running, as
// servers do, runs in the background, and what it prints is in a file.
func (s *shell) do(c command) bool {
	s.t.Helper()
	if strings.HasPrefix(c.line, "git clone ") || c.line == "go test work" {
		return false
	}
	goesOn, background := strings.CutSuffix(c.line, "&")
	if background || strings.HasSuffix(c.line, " serve") || strings.HasPrefix(c.line, "go run ./examples/") {
		s.begin(goesOn, c.prints)
		return true
	}
	harness.Eventually(s.t, c.line+" prints "+c.prints, func() bool {
		out, code := s.run(c.line)
		printed := pattern(c.prints).MatchString(out)
		if code != "0" && (c.prints == "" || printed) {
			s.t.Fatalf("%s: exit code %s\n%s", c.line, code, out)
		}
		if !printed {
			s.t.Logf("%s: not yet %q:\n%s", c.line, c.prints, out)
		}
		return printed
	})
	return true
}

// begin starts a command that keeps running, and waits until it has printed something; a server, until
// it has written its kubeconfig.
func (s *shell) begin(line, prints string) (log string) {
	s.t.Helper()
	log = filepath.Join(s.dir, fmt.Sprintf("log-%d", s.n))
	if strings.HasSuffix(strings.TrimSpace(line), "serve") {
		prints = "export KUBECONFIG="
		s.run("kill $(jobs -p) 2>/dev/null; wait") // a page may show twice how it is started
	}
	s.run(fmt.Sprintf("%s >%s 2>&1 &", strings.TrimSpace(line), log))
	harness.Eventually(s.t, line+" prints "+prints, func() bool {
		raw, err := os.ReadFile(log)
		return err == nil && pattern(prints).Match(raw)
	})
	return log
}

// console runs the command of a block that shows what it prints.
func (s *shell) console(block string) {
	s.t.Helper()
	line, want, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
	var out string
	if strings.HasSuffix(line, "serve") {
		raw, err := os.ReadFile(s.begin(line, ""))
		if err != nil {
			s.t.Fatalf("read a file: %v", err)
		}
		out = string(raw)
	} else {
		var code string
		if out, code = s.run(line); code != "0" {
			s.t.Errorf("%s: exit code %s", line, code)
		}
	}
	if !pattern(strings.TrimSpace(want)).MatchString(out) {
		s.t.Errorf("%s prints\n%s\nand not, as the page says,\n%s", line, out, want)
	}
}

// pattern is what a page shows, with any number for each of its numbers, and with any
// text for each ….
func pattern(shown string) *regexp.Regexp {
	p := regexp.QuoteMeta(shown)
	p = regexp.MustCompile(`[0-9]+`).ReplaceAllString(p, "[0-9]+")
	p = regexp.MustCompile(` +`).ReplaceAllString(p, " +")
	return regexp.MustCompile("(?s)" + strings.ReplaceAll(p, "…", ".*"))
}
