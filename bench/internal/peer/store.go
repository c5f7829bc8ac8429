package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Store is an etcd of one member, in a process of its own, below servers. Whoever started it must Stop it. nil is
// none: it has no load.
type Store struct {
	URL string

	cmd *exec.Cmd
	log *os.File
}

// EtcdOf returns etcd's program beside kube-apiserver's.
func EtcdOf(kube Program) Program {
	return Program{Name: "etcd", Path: filepath.Join(filepath.Dir(kube.Path), "etcd"), NoSync: kube.NoSync}
}

// StartStore runs the program, which is etcd, on dir, and waits until it answers.
func (p Program) StartStore(ctx context.Context, dir string) (*Store, error) {
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	clients, peers := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	args := []string{
		"--data-dir=" + dir, "--name=one", "--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers, "--initial-cluster=one=" + peers,
		"--log-level=error", "--quota-backend-bytes=8589934592",
	}
	if p.NoSync {
		args = append(args, "--unsafe-no-fsync")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of etcd: %w", err)
	}
	s := &Store{URL: clients}
	if s.log, err = os.OpenFile(dir+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("open the log of etcd: %w", err)
	}
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), p.Path, args...) // Stop ends it
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), s.log.Close())
	}
	starting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		_, err := s.Load(starting)
		if err == nil {
			return s, nil
		}
		if starting.Err() != nil {
			s.Stop()
			return nil, fmt.Errorf("start etcd: %w (see %s)", err, s.log.Name())
		}
		select {
		case <-starting.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Stop kills etcd: its data are the benchmark's own.
func (s *Store) Stop() {
	if s == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it has ended if it cannot be killed
	_ = s.cmd.Wait()         // its error is that it was killed
	_ = s.log.Close()        // a lost part of the log does no harm
}

// Load is what an etcd has used since its start.
type Load struct {
	CPU  time.Duration
	Sent float64 // bytes, to its clients
}

// Load reads it from the operating system and from etcd's metrics.
func (s *Store) Load(ctx context.Context) (Load, error) {
	if s == nil {
		return Load{}, nil
	}
	u, err := usageOf("etcd", s.cmd.Process.Pid)
	if err != nil {
		return Load{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return Load{}, fmt.Errorf("read the metrics of etcd: %w", err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return Load{}, fmt.Errorf("read the metrics of etcd: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return Load{}, fmt.Errorf("read the metrics of etcd: %w", err)
	}
	sent, err := sum(body, "etcd_network_client_grpc_sent_bytes_total", nil)
	return Load{CPU: u.CPU, Sent: sent}, err
}
