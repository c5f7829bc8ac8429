// Package program runs the built program as a process that can be killed, and is a
// client of it.
//
// A [Server] is `gapless serve` on one data directory, or `gapless relay` in front of another
// one, over any number of processes. A [Client] sends one request and returns its outcome. A
// [Stream] is a watch, read event by event.
package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"
)

// errInUse ends a start: another program has taken the port in the meantime.
var errInUse = errors.New("the port is in use by another program")

// Config says what to run.
type Config struct {
	Path string // of the built program
	Dir  string // for the log, the ready file and, without DataDir, the data
	// DataDir is where the data are; "data" in Dir if it is empty.
	DataDir string
	Flags   []string // of serve, or of relay
	// Upstream makes the program a relay in front of that server, which serves; nil: it is serve.
	Upstream *Server
	Env      []string // besides the environment
	// Handles bounds the file handles of the process from its start on; 0 does not.
	Handles int
}

// Server is the program on one data directory. Exec, Start, Ready and Kill are
// called by one goroutine; everything else by anyone.
type Server struct {
	cfg    Config
	listen string
	log    *os.File
	now    atomic.Pointer[process]
	target atomic.Pointer[string]
}

// process is one run of the program.
type process struct {
	*Process

	killed atomic.Bool
}

// New prepares a server; nothing runs yet.
func New(cfg Config) (*Server, error) {
	if cfg.DataDir == "" {
		cfg.DataDir = filepath.Join(cfg.Dir, "data")
	}
	log, err := os.OpenFile(filepath.Join(cfg.Dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, listen: "127.0.0.1:0", log: log}, nil
}

// Exec starts a process and does not wait for it. The first process picks a port, and later
// ones listen on the same port, so that clients can reconnect.
func (s *Server) Exec() error {
	if err := os.RemoveAll(s.readyFile()); err != nil {
		return err
	}
	command := []string{s.cfg.Path, "serve"}
	if up := s.cfg.Upstream; up != nil {
		command = []string{
			s.cfg.Path, "relay", "--kubeconfig", filepath.Join(up.cfg.DataDir, "kubeconfig"), "--client-ca-file",
			filepath.Join(up.PKI(), "ca.crt"),
		}
	}
	args := append(command, "--data-dir", s.cfg.DataDir, "--listen", s.listen, "--ready-file", s.readyFile())
	args = append(args, s.cfg.Flags...)
	if s.cfg.Handles > 0 { // the shell is replaced: the process keeps its number
		args = append([]string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, s.cfg.Handles)}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // it is to be killed, at a moment of our choice
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.Env = append(os.Environ(), s.cfg.Env...)
	launched, err := Launch(cmd)
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	s.now.Store(&process{Process: launched})
	return nil
}

// Start is Exec and Ready. If the port was lost, it takes another one.
func (s *Server) Start(ctx context.Context) error {
	for {
		if err := s.Exec(); err != nil {
			return err
		}
		if err := s.Ready(ctx); !errors.Is(err, errInUse) {
			return err
		}
		s.listen = "127.0.0.1:0"
	}
}

// Ready waits until the process serves, for at most a minute. It fails if the
// process ends by itself.
func (s *Server) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("it does not serve after a minute"))
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	p := s.now.Load()
	for {
		if s.readReady() {
			return nil
		}
		select {
		case <-p.ended:
			if bytes.Contains(s.Log(2<<10), []byte("is in use by another program")) {
				return errInUse
			}
			return fmt.Errorf("the server ended by itself: %w", p.err)
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Server) readReady() bool {
	raw, err := os.ReadFile(s.readyFile())
	if err != nil {
		return false
	}
	var info struct{ URL string }
	if json.Unmarshal(raw, &info) != nil {
		return false
	}
	at, err := url.Parse(info.URL)
	if err != nil {
		return false
	}
	s.listen = at.Host
	s.target.Store(&info.URL)
	return true
}

// URL returns where the server is or was last reached; empty before it served.
func (s *Server) URL() string {
	if at := s.target.Load(); at != nil {
		return *at
	}
	return ""
}

// Kill ends the process with SIGKILL. It fails if it had ended by itself.
func (s *Server) Kill() error {
	p := s.now.Load()
	p.killed.Store(true)
	select {
	case <-p.ended:
		if bytes.Contains(s.Log(2<<10), []byte("is in use by another program")) {
			s.listen = "127.0.0.1:0"
			return nil
		}
		return fmt.Errorf("the server ended by itself: %w", p.err)
	default:
	}
	if err := p.Process.Kill(); err != nil {
		return fmt.Errorf("kill the server: %w", err)
	}
	return nil
}

// Pause stops the process without closing its connections, until Resume.
func (s *Server) Pause() error { return s.now.Load().Pause() }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.now.Load().Resume() }

// Close kills what still runs, and closes the log.
func (s *Server) Close() error {
	if p := s.now.Load(); p != nil {
		p.killed.Store(true)
		_ = p.Process.Kill() // it may have ended
	}
	return s.log.Close()
}

// PID returns the number of the process.
func (s *Server) PID() int { return s.now.Load().cmd.Process.Pid }

// Ended is closed once the present process has ended.
func (s *Server) Ended() <-chan struct{} { return s.now.Load().ended }

// EndedByItself reports whether the present process ended without Kill or Close.
func (s *Server) EndedByItself() bool {
	p := s.now.Load()
	select {
	case <-p.ended:
		return !p.killed.Load()
	default:
		return false
	}
}

// Log returns the last bytes of what all processes have written.
func (s *Server) Log(last int64) []byte {
	info, err := s.log.Stat()
	if err != nil {
		return nil
	}
	from := max(0, info.Size()-last)
	out := make([]byte, info.Size()-from)
	n, _ := s.log.ReadAt(out, from) // it may grow meanwhile: what is there is enough
	return out[:n]
}

// Host returns host:port of the server.
func (s *Server) Host() string {
	at, err := url.Parse(s.URL())
	if err != nil {
		return ""
	}
	return net.JoinHostPort(at.Hostname(), at.Port())
}

// PKI returns the directory with the certificate by which clients know the server, ca.crt, and, of serve,
// with the keys of its CA.
func (s *Server) PKI() string { return filepath.Join(s.cfg.DataDir, "pki") }

func (s *Server) readyFile() string { return filepath.Join(s.cfg.Dir, "ready.json") }

// Serves reports whether the present process has come to serve.
func (s *Server) Serves() bool {
	_, err := os.Stat(s.readyFile())
	return err == nil
}
