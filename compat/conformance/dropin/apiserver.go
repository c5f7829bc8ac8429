package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
)

// server is what the flags of kube-apiserver say.
type server struct {
	bind, port, certs string
	etcd              []string
	flags             *pflag.FlagSet
}

// passed are the flags that `gapless serve` has under the same names and with the same
// meaning.
var passed = []string{
	"anonymous-auth", "api-audiences", "audit-log-path", "audit-policy-file", "authorization-mode", "client-ca-file",
	"encryption-provider-config", "max-requests-inflight", "max-mutating-requests-inflight", "service-account-issuer",
	"service-account-key-file", "service-account-signing-key-file", "tls-cert-file", "tls-private-key-file", "token-auth-file",
}

// apiserver runs `gapless serve` until ctx or that ends.
func apiserver(ctx context.Context, args []string) error {
	s := &server{flags: flagsOf("kube-apiserver")}
	s.flags.StringVar(&s.bind, "bind-address", "127.0.0.1", "address to listen on")
	s.flags.StringVar(&s.port, "secure-port", "6443", "port to listen on")
	s.flags.StringVar(&s.certs, "cert-dir", "", "directory with apiserver.crt and apiserver.key")
	s.flags.StringSliceVar(&s.etcd, "etcd-servers", nil, "URL of the etcd beside it")
	for _, name := range passed {
		s.flags.StringArray(name, nil, "as of gapless serve")
	}
	report := ignored(s.flags, map[string]string{
		"allow-privileged":          "there is no kubelet",
		"disable-admission-plugins": "those that kube-apiserver has besides webhooks, policies and NamespaceLifecycle are missing",
		"service-cluster-ip-range":  "the range is fixed",
		"advertise-address":         "the address of the service kubernetes is the one that it listens on",
	})
	if err := s.flags.Parse(args); err != nil {
		return err
	}
	report(os.Stderr)
	dir, err := s.directory(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(self), "gapless"), s.serve(dir)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	// A group of its own: envtest signals all of this one, and a second signal ends gapless
	// before it has drained.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second // envtest kills after 20 s
	if err := cmd.Run(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// directory asks etcd where the objects are.
func (s *server) directory(ctx context.Context) (string, error) {
	if len(s.etcd) != 1 {
		return "", fmt.Errorf("--etcd-servers has %d URLs, want one", len(s.etcd))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(s.etcd[0], "/")+directory, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("--etcd-servers: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	dir, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New("it is not the etcd beside this program: " + resp.Status)
	}
	return string(dir), err
}

// serve returns the arguments of gapless. What kube-apiserver has without a controller manager
// is what envtest promises: no controllers, and anonymous requests are known.
func (s *server) serve(dir string) []string {
	args := []string{
		"serve", "--data-dir", filepath.Join(dir, "gapless"), "--listen", net.JoinHostPort(s.bind, s.port),
		"--bootstrap", "server", "--controllers=-garbage-collector-controller,-namespace-controller",
	}
	given := map[string]bool{}
	s.flags.Visit(func(f *pflag.Flag) {
		values, is := f.Value.(pflag.SliceValue)
		if !is {
			return
		}
		for _, name := range passed {
			if f.Name != name {
				continue
			}
			given[name] = true
			for _, value := range values.GetSlice() {
				args = append(args, "--"+name+"="+value)
			}
		}
	})
	if !given["anonymous-auth"] {
		args = append(args, "--anonymous-auth")
	}
	if s.certs != "" && !given["tls-cert-file"] {
		args = append(args, "--tls-cert-file", filepath.Join(s.certs, "apiserver.crt"), "--tls-private-key-file", filepath.Join(s.certs, "apiserver.key"))
	}
	return args
}
