//go:build linux

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// process is the built program, serving in a process of its own, whose memory is
// read from /proc.
type process struct {
	t    testing.TB
	url  string
	cfg  *rest.Config
	cmd  *exec.Cmd
	log  bytes.Buffer
	over bool
}

// buildProgram builds the program, once for all tests, and returns its path: beside the
// test's own binary, in a directory that go test removes.
var buildProgram = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("build the program: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "gapless")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s -w", "-o", path,
		"github.com/gapless-io/gapless/cmd/gapless").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return path, nil
})

// startProcess serves from memory until the test ends.
func startProcess(t testing.TB) *process {
	t.Helper()
	return startProcessOn(t, filepath.Join(t.TempDir(), "data"), "--memory", "--bootstrap", "server")
}

// startProcessOn serves a data directory with flags until the test ends.
func startProcessOn(t testing.TB, dataDir string, flags ...string) *process {
	t.Helper()
	program, err := buildProgram()
	if err != nil {
		t.Fatalf("build program: %v", err)
	}
	ready := filepath.Join(t.TempDir(), "ready.json")
	p := &process{t: t}
	// It is to be signalled, not killed with the test's context.
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), program,
		append([]string{"serve", "--data-dir", dataDir, "--listen", "127.0.0.1:0", "--ready-file", ready}, flags...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start the command: %v", err)
	}
	t.Cleanup(p.stop)
	var said struct{ URL, Kubeconfig string }
	until(t, "it serves", time.Minute, func() bool {
		raw, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(raw, &said) == nil
	})
	p.url = said.URL
	if p.cfg, err = clientcmd.BuildConfigFromFlags("", said.Kubeconfig); err != nil {
		t.Fatalf("read the kubeconfig: %v", err)
	}
	return p
}

// stop ends it with SIGTERM; it must exit with 0.
func (p *process) stop() {
	if p.over {
		return
	}
	p.over = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("signal: %v", err)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("it ended with %v:\n%s", err, p.log.String())
	}
}

// kill ends it at once, as a crash does.
func (p *process) kill() {
	p.t.Helper()
	p.over = true
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Errorf("kill: %v", err)
	}
	_ = p.cmd.Wait() // it was killed
}

// tls is the administrator's; connections of one configuration resume its sessions.
func (p *process) tls() *tls.Config {
	p.t.Helper()
	cfg, err := rest.TLSConfigFor(p.cfg)
	if err != nil {
		p.t.Fatalf("make the TLS configuration: %v", err)
	}
	cfg.MinVersion, cfg.ClientSessionCache = tls.VersionTLS12, tls.NewLRUClientSessionCache(1)
	return cfg
}

// caller is the administrator, over one protocol.
func (p *process) caller(t testing.TB, w protocol) *caller {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetHTTP1(w == http1)
	protocols.SetHTTP2(w == http2)
	var lines connections
	transport := &http.Transport{
		TLSClientConfig: p.tls(), Protocols: protocols, DisableCompression: true, DialContext: lines.dial,
	}
	t.Cleanup(lines.close)
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{t: t, base: p.url, http: &http.Client{Transport: transport}, wire: w}
}

func (p *process) host() string { return strings.TrimPrefix(p.url, "https://") }

// status reads a line of the process's status in KB: VmRSS, its memory, or VmHWM, the
// maximum of that.
func (p *process) status(name string) int {
	p.t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatalf("read a file: %v", err)
	}
	found := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(raw)
	if found == nil {
		p.t.Fatalf("no %s in %s", name, raw)
	}
	kb, err := strconv.Atoi(string(found[1]))
	if err != nil {
		p.t.Fatalf("read a number: %v", err)
	}
	return kb
}

// queued is how much the kernel keeps for the server's clients: in all, and the most
// of one connection.
func (p *process) queued() (all, most int64) {
	p.t.Helper()
	raw, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		p.t.Fatalf("read a file: %v", err)
	}
	_, port, err := net.SplitHostPort(p.host())
	if err != nil {
		p.t.Fatalf("split an address: %v", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		p.t.Fatalf("read a number: %v", err)
	}
	for line := range strings.Lines(string(raw)) {
		columns := strings.Fields(line)
		if len(columns) < 5 || columns[1] != fmt.Sprintf("0100007F:%04X", n) || columns[3] == "0A" { // 0A listens
			continue
		}
		unread, _, _ := strings.Cut(columns[4], ":")
		bytes, err := strconv.ParseInt(unread, 16, 64)
		if err != nil {
			p.t.Fatalf("read a number: %v", err)
		}
		all, most = all+bytes, max(most, bytes)
	}
	return all, most
}
