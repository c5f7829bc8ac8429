package peer

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Kube is the name of kube-apiserver itself, with an etcd process beside it: unlike the reference server it
// has the built-in kinds. Program.Path is kube-apiserver, and etcd is in the same directory. What is measured of it
// is kube-apiserver alone.
const Kube = "kube-apiserver"

// BuildKube builds kube-apiserver and etcd from their modules into dir.
func BuildKube(ctx context.Context, root, dir string) (Program, error) {
	p := Program{Name: Kube, Path: filepath.Join(dir, Kube)}
	for _, of := range []struct{ module, pkg, name string }{
		{"conformance/apiserver/program", "k8s.io/kubernetes/cmd/kube-apiserver", Kube},
		{"compat/suites", "./etcd", "etcd"},
	} {
		cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, of.name), of.pkg)
		cmd.Dir = filepath.Join(root, filepath.FromSlash(of.module))
		cmd.Env = append(os.Environ(), "GOWORK=auto")
		if out, err := cmd.CombinedOutput(); err != nil {
			return p, fmt.Errorf("build %s: %w\n%s", of.name, err, out)
		}
	}
	return p, nil
}

// kube starts kube-apiserver and its etcd on the server's directory.
func (s *Server) kube(ctx, starting context.Context) error {
	if s.Certificates == nil {
		own, err := NewCertificates(s.dir + "-certificates")
		if err != nil {
			return err
		}
		s.Certificates = own
	}
	accounts := filepath.Join(s.dir, "accounts.key")
	if err := writeAccountsKey(accounts); err != nil {
		return err
	}
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return err
	}
	store := s.Store
	if store == nil {
		if store, err = EtcdOf(s.Program).StartStore(ctx, filepath.Join(s.dir, "etcd")); err != nil {
			return err
		}
		s.own = store
	}
	args := append(s.Certificates.flags(),
		"--etcd-servers="+store.URL, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+ports[0],
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-signing-key-file="+accounts,
		"--service-account-key-file="+accounts, "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none", "--disable-admission-plugins=ServiceAccount")
	if err := s.run(ctx, args, io.Discard); err != nil {
		return err
	}
	s.Credentials = Credentials{CA: s.Certificates.ca, Cert: s.Certificates.cert, Key: s.Certificates.key}
	if err := s.address("https://127.0.0.1:" + ports[0]); err != nil {
		return err
	}
	for {
		err := s.try(starting, "/readyz")
		if err == nil {
			s.Ready = time.Since(s.Began)
			return nil
		}
		select {
		case exit := <-s.exit:
			s.exit <- exit
			return fmt.Errorf("it ended: %w", exit)
		case <-starting.Done():
			return errors.Join(context.Cause(starting), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// freePorts returns ports of 127.0.0.1 that were free a moment ago: these programs cannot say which they took.
func freePorts(ctx context.Context, n int) (ports []string, err error) {
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		defer func() { _ = l.Close() }() // held until all were found
		ports = append(ports, l.Addr().String()[strings.LastIndexByte(l.Addr().String(), ':')+1:])
	}
	return ports, nil
}

// writeAccountsKey writes the key of service accounts, which nobody uses, unless there is one.
func writeAccountsKey(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make a key: %w", err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return fmt.Errorf("write a key: %w", err)
	}
	return nil
}

// try asks for a document.
func (s *Server) try(ctx context.Context, path string) error {
	c, err := s.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Do(wire.Request{Path: path, Accept: "*/*"}, io.Discard)
	return err
}
