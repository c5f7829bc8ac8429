// Package server starts the built program for upstream's tests, with the flags of kube-apiserver.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"k8s.io/client-go/rest"
)

const (
	// Program is the environment variable with the path of the built program.
	Program = "GAPLESS_PROGRAM"
	// Etcd is that of upstream's tests with the URL of an etcd. Each server has a prefix of keys.
	Etcd = "KUBE_INTEGRATION_ETCD_URL"
	// Directories, if it is set, is a directory for those of servers that are not over the etcd.
	Directories = "GAPLESS_DIRECTORIES"
)

// Server is the program in a process of its own.
type Server struct {
	// Config is of a client that may do everything, as the one of kube-apiserver that is for itself.
	Config *rest.Config
	// Dir has the files of the server.
	Dir string

	cmd    *exec.Cmd
	log    bytes.Buffer
	exited chan struct{} // closed when it has
	failed error         // after exited
}

// Start starts the program in a new directory, with flags of kube-apiserver: the last of several counts.
func Start(flags []string) (*Server, error) {
	dir, err := os.MkdirTemp("", "integration")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, exited: make(chan struct{})}
	if err := s.start(flags); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *Server) start(flags []string) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	ca, cert, key, err := servingFiles(s.Dir)
	if err != nil {
		return err
	}
	read := readSettings(flags)
	if err := read.place(filepath.Join(s.Dir, "data")); err != nil {
		return err
	}
	read.access()
	read.plugins()
	token := uuid.NewString()
	if err := read.addCaller(filepath.Join(s.Dir, "tokens.csv"), token); err != nil {
		return err
	}
	args := append([]string{
		"serve", "--listen=" + address, "--stop-at-once", "--bootstrap=server",
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--controllers=-garbage-collector-controller,-namespace-controller,-resourcequota-controller",
	}, read.args()...)
	s.Config = &rest.Config{
		Host: "https://" + address, BearerToken: token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: ca},
	}
	s.cmd = exec.Command(os.Getenv(Program), args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.failed = s.cmd.Wait()
		close(s.exited)
	}()
	return nil
}

// WaitUntilReady returns when the server is ready.
func (s *Server) WaitUntilReady(ctx context.Context) error {
	config := rest.CopyConfig(s.Config)
	config.Timeout = 5 * time.Second
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(limited, http.MethodGet, s.Config.Host+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close() // its code says all
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the program ended: %w\n%s", s.failed, tail(s.log.String()))
		case <-limited.Done():
			return errors.Join(fmt.Errorf("the server is not ready: %w", context.Cause(limited)), s.Stop())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the program and removes its directory. The error is what it ended with.
func (s *Server) Stop() error {
	err := s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
		err = s.failed
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill() // which Wait reports
		<-s.exited
		err = errors.New("it did not end within 20 s of SIGTERM")
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, tail(s.log.String()))
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// Output returns the end of what it has printed, after it has ended.
func (s *Server) Output() string {
	<-s.exited
	return tail(s.log.String())
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// isIgnored reports whether a flag changes nothing that a client of the program sees.
func isIgnored(name string) bool {
	return slices.Contains(strings.Fields(ignored), name)
}

const ignored = ` feature-gates runtime-config runtime-config-emulation-forward-compatible emulated-version
 min-compatibility-version
 emulation-forward-compatible watch-cache watch-cache-sizes endpoint-reconciler-type advertise-address bind-address secure-port
 cert-dir request-timeout v vmodule allow-privileged enable-aggregator-routing audit-log-version external-hostname
 service-account-lookup storage-media-type enable-garbage-collector authentication-skip-lookup permit-port-sharing
 storage-initialization-timeout etcd-count-metric-poll-period shutdown-delay-duration audit-webhook-mode
 enable-priority-and-fairness peer-ca-file `
