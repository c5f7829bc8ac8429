// Package harness runs the program and injects failures, for tests of real clients. It
// depends on the standard library only, so that clients of any version can be tested
// with it.
//
// A [Server] is the built program in a process of its own. A [Cluster] is upstream's
// kube-apiserver over etcd. A [Relay] is the program in front of either; [Sides] are the ways
// with it and without it. A [Proxy] is between one of them and a client, and breaks
// connections. A [Counter] counts the LISTs and WATCHes that a client sends. A [Witness]
// records what a handler sees, and checks it. An [Informer] is a client under test, which
// [UnderFailures] runs through cut connections, expired history and restarts. A [Foreign] is a
// program in another language whose watches are such clients. An [Operator] is one that
// writes: it applies what its objects need, and cleans up after them.
//
// failures.go has the scenario of real clients, clients.go those in other languages,
// restored.go what happens behind a restored upstream, goaway.go behind one that sends clients
// away.
package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// Build builds a main package, given relative to the module's root, into dir and
// returns the program's path. Where BUILT_GAPLESS names gapless, as in .ci/run, which builds it once, dir gets that; a name
// with the prefix of the program's own variables would be one of its flags.
func Build(ctx context.Context, dir, module, pkg string) (string, error) {
	program := filepath.Join(dir, filepath.Base(filepath.Join(module, pkg)))
	if built := os.Getenv("BUILT_GAPLESS"); built != "" && module == Root() && pkg == "cmd/gapless" {
		if err := os.Link(built, program); err == nil { // else it is on another file system
			return program, nil
		}
	}
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
	*process

	Kubeconfig string
}

// Start builds the program, starts it with further flags of serve, waits until it
// serves, and ends it with the test.
func Start(t testing.TB, flags ...string) *Server {
	t.Helper()
	return StartProgram(t, Program(t), flags...)
}

// Program builds the program, into a directory of the test.
func Program(t testing.TB) string {
	t.Helper()
	program, err := Build(t.Context(), t.TempDir(), Root(), "cmd/gapless")
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// StartProgram is Start with a program that is built already.
func StartProgram(t testing.TB, program string, flags ...string) *Server {
	t.Helper()
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.Contains(flag, "admission-plugins") }) {
		flags = append([]string{"--disable-admission-plugins=ServiceAccount"}, flags...) // nobody makes accounts
	}
	flags = append([]string{"serve", "--bootstrap", "server"}, flags...) // no ConfigMaps but those of the test
	s := &Server{process: newProcess(t, "the server", program, flags)}
	s.start(t)
	s.Kubeconfig = s.ready.Kubeconfig
	return s
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

// Backup makes a backup of the server while it serves, and returns the file.
func (s *Server) Backup(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "backup")
	s.Run(t, "backup", file)
	return file
}

// RestoreBackup starts the server again on what a backup had. It keeps its certificates.
func (s *Server) RestoreBackup(t testing.TB, file string) {
	t.Helper()
	s.Stop(t)
	former := filepath.Join(t.TempDir(), "former")
	if err := os.Rename(s.data(), former); err != nil {
		t.Fatalf("move the data directory away: %v", err)
	}
	s.Run(t, "restore", file, s.data())
	replace(t, filepath.Join(s.data(), "pki"), filepath.Join(former, "pki"))
	s.start(t)
}

// patience is how long a test waits for what another process or goroutine does. kube-rs of 2023 waits up to 48 s after
// each failure of two minutes, and needs two of them after a restore.
const patience = 4 * time.Minute

// Eventually waits for something that another process or goroutine does.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventually(t, patience, what, ok)
}

func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %v in vain until %s", within, what)
		}
	}
}

// FreePort returns a port of the loopback address for a program that the test starts, maybe several
// times.
func FreePort(t testing.TB) string {
	t.Helper()
	return freePort(t)
}

// inCI reports whether .ci/run runs the tests, which leaves out what takes minutes.
func inCI() bool { return os.Getenv("CI") == "true" }

// Long skips a test in CI: `make compat` runs it.
func Long(t testing.TB) {
	t.Helper()
	if inCI() {
		t.Skip("CI has no time for it; make compat runs it")
	}
}
