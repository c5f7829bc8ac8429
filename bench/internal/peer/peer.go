// Package peer runs the API servers that are compared, each in one process of its
// own on a directory of its own, and reads from the operating system what they use.
//
// A [Program] is a server that was built from this tree: gapless, the reference server of
// conformance/oracle, which is upstream's own code with its etcd, or kube-apiserver. A
// [Server] is a program that runs; a relay is one as well. [Usage] is what a server's process
// has used. A [Store] is an etcd below servers. [Credentials] are how clients and servers know each other. [Certificates] are
// those that a server keeps over a restart, and a [Front] is the address that it keeps.
package peer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Names of the programs, and of gapless where it is a relay.
const (
	Gapless  = "gapless"
	Upstream = "upstream"
	Relay    = "relay"
	Stock    = "stock" // cmd/stock, which answers with Program.Body
)

// Program is a built server.
type Program struct {
	Name string // Gapless, Upstream or Kube
	Path string
	// Debug asks gapless for its listener of profiles.
	Debug bool
	// NoSync lets upstream's etcd acknowledge writes before they are on disk: only to
	// see that a case works. etcd gives up a write after 7 s, which a disk that others
	// use as well can exceed.
	NoSync bool
	// Certificates are what the reference server uses, so that those who know it know it
	// after a restart as well; nil: its own, new at each start. gapless keeps its own.
	Certificates *Certificates
	// Store is the etcd in which kube-apiserver and gapless keep their objects; nil: kube-apiserver starts one of
	// its own, and gapless needs none.
	Store *Store
	// Body is the file that a stock server answers with, Coding its Content-Encoding, and Every how often those who watch
	// get it.
	Body, Coding string
	Every        time.Duration
	// Flags are further ones of gapless serve.
	Flags []string
}

// Build builds the program of that name from the checkout at root into dir.
func Build(ctx context.Context, name, root, dir string) (Program, error) {
	module, pkg := root, "./cmd/gapless"
	switch name {
	case Upstream:
		module, pkg = filepath.Join(root, "conformance", "oracle"), "./cmd/oracle"
	case Stock:
		module, pkg = filepath.Join(root, "bench"), "./cmd/stock"
	}
	p := Program{Name: name, Path: filepath.Join(dir, name)}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", p.Path, pkg)
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOWORK=auto") // the module's own, even if the caller's is off
	if out, err := cmd.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return p, nil
}

// Server is a running server. Whoever started it must Stop it.
type Server struct {
	Program
	Target wire.Target
	// Credentials are those of Target.
	Credentials Credentials
	// Began is when the process was started, Ready how long it took until the API
	// of custom resources answered.
	Began time.Time
	Ready time.Duration
	// Profiles is the base URL of the profiles; empty if there are none.
	Profiles string

	dir   string
	cmd   *exec.Cmd
	own   *Store // kube-apiserver's, if Program has none
	stdin io.Closer
	log   *os.File
	exit  chan error
}

// startWithin bounds a start: upstream needs 1 to 5 s on an idle machine.
const startWithin = 90 * time.Second

// Start runs the program on dir, which is empty or its own, and waits until the
// API of custom resources answers.
func (p Program) Start(ctx context.Context, dir string) (*Server, error) {
	return p.startBy(dir, func(s *Server) error { return s.start(ctx) })
}

// startBy runs the program by start, with a log beside its directory.
func (p Program) startBy(dir string, start func(*Server) error) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of %s: %w", p.Name, err)
	}
	log, err := os.OpenFile(filepath.Join(dir, "..", filepath.Base(dir)+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", p.Name, err)
	}
	s := &Server{Program: p, dir: dir, log: log, exit: make(chan error, 1)}
	if err := start(s); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w (see %s)", p.Name, err, log.Name()), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	starting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if s.Name == Kube {
		return s.kube(ctx, starting)
	}
	if s.Name == Gapless {
		args := []string{
			"serve", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--ready-file", s.readyFile(), "--log-level", "warn",
			"--bootstrap", "none", "--disable-admission-plugins", "ServiceAccount", // as its peers
		}
		if s.Store != nil {
			args = append(args, "--etcd-servers", s.Store.URL)
		}
		if s.Debug {
			args = append(args, "--debug-listen", "127.0.0.1:0")
		}
		args = append(args, s.Flags...)
		if err := s.run(ctx, args, io.Discard); err != nil {
			return err
		}
		if err := s.readReady(starting); err != nil {
			return err
		}
		return s.answers(starting)
	}
	args := []string{"--data-dir", s.dir}
	if s.NoSync {
		args = append(args, "--no-sync")
	}
	if s.Certificates != nil {
		args = append(append(args, "--"), s.Certificates.flags()...)
	}
	if s.Name == Stock {
		args = append(s.Certificates.flags(), "--file", s.Body, "--content-encoding", s.Coding,
			"--every", cmp.Or(s.Every, time.Second).String())
	}
	lines := &firstLine{got: make(chan []byte, 1)}
	if err := s.run(ctx, args, lines); err != nil {
		return err
	}
	if err := s.readLine(starting, lines.got); err != nil || s.Name == Stock {
		return err
	}
	return s.answers(starting)
}

// readyFile is where gapless says that it is ready.
func (s *Server) readyFile() string { return s.dir + ".ready" }

// run starts the process. What it prints goes to out as well as to the log.
func (s *Server) run(ctx context.Context, args []string, out io.Writer) error {
	if err := os.Remove(s.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the ready file: %w", err)
	}
	// Not to end with ctx: the process is asked to end, by Stop.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), s.Path, args...)
	s.cmd.Stderr = s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // if this process dies without Stop
	var err error
	if s.stdin, err = s.cmd.StdinPipe(); err != nil { // the reference server ends with its input
		return fmt.Errorf("make its input: %w", err)
	}
	s.cmd.Stdout = io.MultiWriter(s.log, out)
	s.Began = time.Now()
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	// The server owns it: it ends with the process, and Stop waits for that.
	go func() { s.exit <- s.cmd.Wait() }()
	return nil
}

// firstLine hands on the first line that is a JSON object.
type firstLine struct {
	buf   []byte
	found bool
	got   chan []byte
}

func (f *firstLine) Write(p []byte) (int, error) {
	if f.found {
		return len(p), nil
	}
	f.buf = append(f.buf, p...)
	for {
		line, rest, ok := bytes.Cut(f.buf, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		if bytes.HasPrefix(line, []byte("{")) {
			f.found = true
			f.got <- line
			return len(p), nil
		}
		f.buf = rest
	}
}

// readLine reads what the reference server says when it is ready.
func (s *Server) readLine(ctx context.Context, line <-chan []byte) error {
	var info struct {
		URL   string `json:"url"`
		Token string `json:"token"`
		CA    string `json:"ca"`
	}
	select {
	case raw := <-line:
		if err := json.Unmarshal(raw, &info); err != nil {
			return fmt.Errorf("read its ready line: %w", err)
		}
	case err := <-s.exit:
		s.exit <- err
		return fmt.Errorf("it ended: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.Credentials = Credentials{CA: []byte(info.CA), Token: info.Token}
	if s.Certificates != nil {
		s.Credentials.CA, s.Credentials.Cert, s.Credentials.Key = s.Certificates.ca, s.Certificates.cert, s.Certificates.key
	}
	return s.address(info.URL)
}

// ready is what gapless writes into its ready file.
type ready struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`
	CA         string `json:"ca"` // a file
	Debug      string `json:"debug"`
}

// awaitReady waits for gapless' ready file.
func (s *Server) awaitReady(ctx context.Context) (ready, error) {
	var info ready
	for {
		raw, err := os.ReadFile(s.readyFile())
		if err == nil {
			if err := json.Unmarshal(raw, &info); err != nil {
				return info, fmt.Errorf("read its ready file: %w", err)
			}
			return info, nil
		}
		select {
		case err := <-s.exit:
			s.exit <- err
			return info, fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return info, context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// readReady reads how to reach gapless.
func (s *Server) readReady(ctx context.Context) error {
	info, err := s.awaitReady(ctx)
	if err != nil {
		return err
	}
	if s.Credentials, err = readCredentials(info.Kubeconfig); err != nil {
		return err
	}
	s.Profiles = info.Debug
	return s.address(info.URL)
}

func (s *Server) address(base string) error {
	u, err := url.Parse(base)
	if err != nil {
		return fmt.Errorf("its URL: %w", err)
	}
	s.Target, err = s.Credentials.target(u.Host)
	return err
}

// answers waits until the definitions of custom resources can be listed, and
// notes how long that took.
func (s *Server) answers(ctx context.Context) error {
	for {
		err := s.try(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
		if err == nil {
			s.Ready = time.Since(s.Began)
			return nil
		}
		select {
		case exit := <-s.exit:
			s.exit <- exit
			return fmt.Errorf("it ended: %w", exit)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// PID returns the number of the server's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// stopWithin is how long a server may take to end before it is killed.
const stopWithin = 30 * time.Second

// Stop ends the server by SIGTERM and waits for it. A server that does not end is
// killed, which is an error.
func (s *Server) Stop() error {
	defer func() { _ = s.log.Close() }() // a lost part of the log does no harm
	defer s.own.Stop()
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", s.Name, err)
	}
	select {
	case err := <-s.exit:
		s.cmd = nil // it may be stopped again
		return s.ended(err)
	case <-time.After(stopWithin):
	}
	if err := s.stdin.Close(); err != nil {
		return fmt.Errorf("close the input of %s: %w", s.Name, err)
	}
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", s.Name, err)
	}
	return fmt.Errorf("%s did not end within %v of SIGTERM, and was killed: %w", s.Name, stopWithin, <-s.exit)
}

// Kill ends the server at once. It may still be stopped.
func (s *Server) Kill() error {
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s.Name, err)
	}
	_ = <-s.exit // it was killed
	s.cmd = nil
	return nil
}

// ended judges how the process ended: the peer may end as it likes.
func (s *Server) ended(err error) error {
	if err != nil && s.Name != Upstream && s.Name != Kube && s.Name != Stock {
		return fmt.Errorf("%s ended with: %w", s.Name, err)
	}
	return nil
}
