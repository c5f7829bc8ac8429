// Package harness runs the program and injects failures, for tests of real clients. It
// depends on the standard library only, so that clients of any version can be tested
// with it.
//
// It has seven nouns. A [Server] is the built program in a process of its own. A
// [Proxy] is between it and a client, and breaks connections. A [Counter] counts
// the LISTs and WATCHes that a client sends. A [Witness] records what a handler
// sees, and checks it. An [Informer] is a client under test, which [UnderFailures]
// runs through cut connections, expired history and restarts. A [Foreign] is a program
// in another language whose watches are such clients. An [Operator] is one that writes:
// it applies what its objects need, and cleans up after them.
package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Build builds a main package, given relative to the module's root, into dir and
// returns the program's path.
func Build(ctx context.Context, dir, module, pkg string) (string, error) {
	program := filepath.Join(dir, filepath.Base(filepath.Join(module, pkg)))
	// Without symbols and DWARF, which nobody reads, the linker is done sooner.
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", program, "./"+pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=auto") // the module's own, even if the caller's is off
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &buildError{pkg: pkg, out: string(out), cause: err}
	}
	return program, nil
}

type buildError struct {
	pkg, out string
	cause    error
}

func (e *buildError) Error() string { return "build " + e.pkg + ": " + e.cause.Error() + "\n" + e.out }

func (e *buildError) Unwrap() error { return e.cause }

// Root returns the root of the core module.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Server is a running `gapless serve` on a directory of its own.
type Server struct {
	URL        string
	Kubeconfig string

	program string
	flags   []string
	dir     string
	listen  string
	cmd     *exec.Cmd
	log     *bytes.Buffer
}

// Start builds the program, starts it with further flags of serve, waits until it
// serves, and ends it with the test.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	program, err := Build(t.Context(), t.TempDir(), Root(), "cmd/gapless")
	if err != nil {
		t.Fatal(err)
	}
	return StartProgram(t, program, flags...)
}

// StartProgram is Start with a program that is built already.
func StartProgram(t testing.TB, program string, flags ...string) *Server {
	t.Helper()
	s := &Server{program: program, flags: flags, dir: t.TempDir(), listen: "127.0.0.1:0"}
	s.start(t)
	t.Cleanup(func() {
		if s.cmd != nil {
			s.Stop(t)
		}
		if t.Failed() {
			t.Logf("output of the server:\n%s", s.log.String())
		}
	})
	return s
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	ready := filepath.Join(s.dir, "ready.json")
	if err := os.RemoveAll(ready); err != nil {
		t.Fatal(err)
	}
	args := append([]string{
		"serve", "--data-dir", filepath.Join(s.dir, "data"), "--listen", s.listen, "--ready-file", ready,
		"--bootstrap", "server", // no ConfigMaps but those of the test
	}, s.flags...)
	// Not to end with the test's context: the process is to be signalled, not killed.
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), s.program, args...)
	if s.log == nil {
		s.log = &bytes.Buffer{}
	}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatalf("start the server: %v", err)
	}
	var info struct {
		URL        string `json:"url"`
		Kubeconfig string `json:"kubeconfig"`
	}
	Eventually(t, "the server serves", func() bool {
		raw, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(raw, &info) == nil
	})
	s.URL, s.Kubeconfig = info.URL, info.Kubeconfig
	parsed, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	s.listen = parsed.Host // a restart listens on the same address
}

// Address returns where the server listens, as host:port.
func (s *Server) Address() string { return s.listen }

// PID returns the number of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server gracefully; it must exit with 0.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("signal the server: %v", err)
	}
	err := s.cmd.Wait()
	s.cmd = nil
	if err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

// Restart stops the server gracefully and starts it again on the same directory
// and address.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop(t)
	s.start(t)
}

// Crash kills the server and starts it again on the same directory and address.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill the server: %v", err)
	}
	_ = s.cmd.Wait() // its error is that it was killed
	s.start(t)
}

// Run runs the program with arguments and returns what it printed.
func (s *Server) Run(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("gapless %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Eventually waits for something that another process or goroutine does.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(90 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited 90 s in vain until %s", what)
		}
	}
}
