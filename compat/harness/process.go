package harness

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// process is the built program with a command that serves, on a directory of its own.
type process struct {
	URL string

	name    string
	program string
	command []string // the command and its flags
	dir     string
	listen  string // host:port, also after a restart
	ready   readiness
	cmd     *exec.Cmd
	log     Printed
}

// readiness is what the program writes when it serves.
type readiness struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	CA         string `json:"ca"` // a file
}

// newProcess returns a process that is ended with the test.
func newProcess(t testing.TB, name, program string, command []string) *process {
	t.Helper()
	p := &process{name: name, program: program, command: command, dir: t.TempDir(), listen: "127.0.0.1:" + freePort(t)}
	t.Cleanup(func() {
		if p.cmd != nil {
			p.Stop(t)
		}
		if t.Failed() {
			t.Logf("output of %s:\n%s", p.name, p.log.String())
		}
	})
	return p
}

// data is the data directory.
func (p *process) data() string { return filepath.Join(p.dir, "data") }

func (p *process) start(t testing.TB) {
	t.Helper()
	ready := filepath.Join(p.dir, "ready.json")
	if err := os.RemoveAll(ready); err != nil {
		t.Fatal(err)
	}
	args := append(slices.Clip(p.command), "--data-dir", p.data(), "--listen", p.listen, "--ready-file", ready)
	// Not to end with the test's context: the process is to be signalled, not killed.
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), p.program, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	Eventually(t, p.name+" serves", func() bool {
		raw, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(raw, &p.ready) == nil
	})
	p.URL = p.ready.URL
}

// Address returns where it listens, as host:port.
func (p *process) Address() string { return p.listen }

// PID returns the number of the process.
func (p *process) PID() int { return p.cmd.Process.Pid }

// Output returns what it has printed.
func (p *process) Output() string { return p.log.String() }

// Stop ends it gracefully; it must exit with 0.
func (p *process) Stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	err := p.cmd.Wait()
	p.cmd = nil
	if err != nil {
		t.Errorf("%s ended with %v", p.name, err)
	}
}

// Restart stops it gracefully and starts it again on the same directory and address.
func (p *process) Restart(t testing.TB) {
	t.Helper()
	p.Stop(t)
	p.start(t)
}

// Crash kills it and starts it again on the same directory and address.
func (p *process) Crash(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	_ = p.cmd.Wait() // its error is that it was killed
	p.start(t)
}

// Freeze stops the process without closing its connections, until Thaw.
func (p *process) Freeze(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

// Thaw ends a Freeze.
func (p *process) Thaw(t testing.TB) { p.signal(t, syscall.SIGCONT) }

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("signal %s: %v", p.name, err)
	}
}

// Copy copies the data directory while the process is stopped, and returns the copy's path.
func (p *process) Copy(t testing.TB) string {
	t.Helper()
	p.Stop(t)
	dir := filepath.Join(t.TempDir(), "copy")
	replace(t, dir, p.data())
	p.start(t)
	return dir
}

// Restore starts the process again on a copy of its data directory.
func (p *process) Restore(t testing.TB, dir string) {
	t.Helper()
	p.Stop(t)
	replace(t, p.data(), dir)
	p.start(t)
}

// replace makes a directory a copy of another one, which only its owner can read.
func replace(t testing.TB, dir, from string) {
	t.Helper()
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.CopyFS(dir, os.DirFS(from))
	}
	if err == nil {
		err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			return os.Chmod(path, 0o600)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}
