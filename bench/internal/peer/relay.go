package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// StartRelay runs the program, which is gapless, as a relay of a server behind a front, on dir,
// which is empty or its own. It waits until the relay accepts requests. The clients' credentials
// are those of the server.
func (p Program) StartRelay(ctx context.Context, of *Server, front *Front, dir string, flags ...string) (*Server, error) {
	p.Name = Relay
	return p.startBy(dir, func(s *Server) error { return s.relay(ctx, of, front, flags) })
}

func (s *Server) relay(ctx context.Context, of *Server, front *Front, flags []string) error {
	starting, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	kubeconfig := s.dir + ".kubeconfig"
	as := of.Credentials
	if front.ca != nil {
		as.CA = front.ca
	}
	if of.Certificates != nil {
		as.Token = "" // a token is of one start only
	}
	if err := as.writeKubeconfig(kubeconfig, front.Address); err != nil {
		return err
	}
	args := []string{
		"relay", "--kubeconfig", kubeconfig, "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--ready-file", s.readyFile(),
		"--log-level", "error",
		"--debug-listen", "127.0.0.1:0",
	}
	switch of.Name {
	case Gapless:
		args = append(args, "--client-ca-file", filepath.Join(of.dir, "pki", "ca.crt"))
	case Kube:
		args = append(args, "--client-ca-file", filepath.Join(of.Certificates.dir, "ca.crt"))
	default: // the reference server has no reviews
		args = append(args, "--auth", "passthrough")
	}
	if err := s.run(ctx, append(args, flags...), io.Discard); err != nil {
		return err
	}
	info, err := s.awaitReady(starting)
	if err != nil {
		return err
	}
	s.Ready, s.Profiles = time.Since(s.Began), info.Debug
	s.Credentials = of.Credentials
	if s.Credentials.Token != "" { // certificates are nothing to a relay that passes credentials on
		s.Credentials.Cert, s.Credentials.Key = nil, nil
	}
	if s.Credentials.CA, err = os.ReadFile(info.CA); err != nil {
		return fmt.Errorf("read its CA: %w", err)
	}
	return s.address(info.URL)
}

// lookEvery is how often it is looked whether a relay is ready.
const lookEvery = 5 * time.Millisecond

// Complete waits until the relay has mirrored the resources of its flag --resources, and returns how long that was
// after the start of its process.
func (s *Server) Complete(ctx context.Context, within time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it is not ready within %v", within))
	defer cancel()
	conn, err := s.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for {
		_, err := conn.Do(wire.Request{Path: "/readyz", Accept: "text/plain"}, io.Discard)
		if err == nil {
			return time.Since(s.Began), nil
		}
		if refused := (*wire.StatusError)(nil); !errors.As(err, &refused) {
			return 0, err
		}
		select {
		case exit := <-s.exit:
			s.exit <- exit
			return 0, fmt.Errorf("it ended: %w", exit)
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), err)
		case <-time.After(lookEvery):
		}
	}
}

// Metric returns the sum of the values of a metric that have all the labels, each like
// `verb="LIST"`; 0 if there are none.
func (s *Server) Metric(ctx context.Context, name string, labels ...string) (float64, error) {
	conn, err := s.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var body bytes.Buffer
	if _, err := conn.Do(wire.Request{Path: "/metrics", Accept: "text/plain"}, &body); err != nil {
		return 0, fmt.Errorf("read the metrics of %s: %w", s.Name, err)
	}
	return sum(body.Bytes(), name, labels)
}
