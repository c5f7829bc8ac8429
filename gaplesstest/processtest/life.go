package processtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// readyWithin is how long a start may take, on a machine that does much else.
	readyWithin = time.Minute
	// stopWithin is how long a server may take to stop: requests in flight have 10 s.
	stopWithin = 20 * time.Second
	// lookEvery is how often it is looked whether a server is ready.
	lookEvery = time.Millisecond
)

// life is one process of the server.
type life struct {
	process *os.Process
	stdin   io.Closer     // the server ends when it is closed, by the end of this process too
	ended   chan struct{} // closed at the end, after err was set
	err     error         // what the process ended with
}

// flags are those of the next process.
func (s *Server) flags() ([]string, error) {
	seed := s.options.seed
	if seed == 0 {
		seed = 1 // for the program 0 is another one each time
	}
	flags := []string{
		"serve", "--unsafe-no-fsync", "--stop-at-once", "--bootstrap", "server", "--history", "0", "--history-bytes", "0",
		"--event-ttl", "0", "--log-level", "debug",
	}
	flags = append(flags, s.options.flags...)
	flags = append(flags,
		"--data-dir", s.data(), "--ephemeral", s.dir.path, "--listen", s.port.address, "--ready-file", s.readyFile(),
		"--enable-faults", "--faults-seed", strconv.FormatUint(seed, 10))
	s.mu.Lock()
	rules := s.rules
	s.mu.Unlock()
	if rules != nil {
		file := filepath.Join(s.dir.path, "faults.json")
		if err := os.WriteFile(file, rules, 0o600); err != nil {
			return nil, fmt.Errorf("keep the faults: %w", err)
		}
		flags = append(flags, "--fault-rules", file)
	}
	manifests, err := absolute(s.options.manifests)
	if err != nil {
		return nil, err
	}
	for _, path := range manifests {
		flags = append(flags, "--from", path)
	}
	return flags, nil
}

func (s *Server) readyFile() string { return filepath.Join(s.dir.path, "ready.json") }

// start starts a process, and returns when it is ready.
func (s *Server) start() error {
	flags, err := s.flags()
	if err != nil {
		return err
	}
	if err := os.Remove(s.readyFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := s.launch(flags)
	if err != nil {
		return fmt.Errorf("start %s: %w", s.program, err)
	}
	s.mu.Lock()
	s.running = l
	s.mu.Unlock()
	if err := s.awaitReady(l); err != nil {
		return errors.Join(err, l.kill())
	}
	c, err := connect(s.data(), "https://"+s.port.address)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = c
	return nil
}

// launch starts a process.
func (s *Server) launch(flags []string) (*life, error) {
	cmd := exec.Command(s.program, flags...) //nolint:noctx // it ends with kill, and with its standard input
	cmd.Env = environment()
	cmd.Stderr = &s.log
	cmd.WaitDelay = time.Second // for what the program has started, and holds its output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, stdin.Close())
	}
	l := &life{process: cmd.Process, stdin: stdin, ended: make(chan struct{})}
	go func() { // ends with the process
		defer close(l.ended)
		l.err = cmd.Wait()
	}()
	return l, nil
}

// environment is that of this process without the variables by which the program is configured.
func environment() []string {
	var kept []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "GAPLESS_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

// awaitReady waits until a process is ready.
func (s *Server) awaitReady(l *life) error {
	ctx, cancel := context.WithTimeout(s.ctx, readyWithin)
	defer cancel()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if _, err := os.Stat(s.readyFile()); err == nil {
			return nil
		}
		select {
		case <-look.C:
		case <-l.ended:
			return fmt.Errorf("the program has ended: %w; it said:\n%s", l.err, s.log.last(logLines))
		case <-ctx.Done():
			return fmt.Errorf("the program is not ready after %v; it said:\n%s", readyWithin, s.log.last(logLines))
		}
	}
}

// kill ends the process at once.
func (l *life) kill() error {
	err := l.process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("kill the process: %w", err)
	}
	<-l.ended
	_ = l.stdin.Close() // Wait has closed it
	return nil
}

// stop ends the process as SIGTERM does.
func (l *life) stop() error {
	if err := l.process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("tell the process to stop: %w", err)
	}
	late := time.NewTimer(stopWithin)
	defer late.Stop()
	select {
	case <-l.ended:
		_ = l.stdin.Close() // Wait has closed it
		if l.err != nil {
			return fmt.Errorf("the program has ended: %w", l.err)
		}
		return nil
	case <-late.C:
		return errors.Join(fmt.Errorf("the program has not ended after %v", stopWithin), l.kill())
	}
}
