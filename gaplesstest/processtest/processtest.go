// Package processtest runs the program gapless as an API server for a test. Its calls are those of
// package gaplesstest, which runs the server inside the test; here the server's modules are no
// requirement of the test, so that it works with client-go from 0.32 on.
//
// A [Server] is a process of the program that ends with its test. An
// [Option] changes how it is made. A [Runner] is the tests of a package that share one ([Main]).
//
//	func TestController(t *testing.T) {
//		s := processtest.New(t)
//		s.InstallCRDs(t, "config/crd")
//		client := kubernetes.NewForConfigOrDie(s.RESTConfig())
//		...
//		s.Compact(t) // watches from older resource versions get 410
//		s.Crash(t)   // the process is killed, and started again; what was answered is stored
//		s.Inject(t, "too-many-requests,verbs=list,count=2")
//	}
//
// The program is one that [Program] or the variable GAPLESS_PROGRAM names, or one that the go
// command builds, once for each version ([Version]). Nothing is left after a test, also if it is
// killed: the server ends with the process that started it, and removes its files.
package processtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/kube"
)

// Server is an API server in a process of its own that ends with its test. Its methods are safe
// for concurrent use; those that restart it or change what it stores must not be called at the
// same time as each other. Methods with a testing.TB end that test when they fail.
type Server struct {
	ctx     context.Context //nolint:containedctx // each process of the server runs in it
	options options
	program string
	dir     *directory
	port    *port
	log     tail

	// changing is held while the process is replaced.
	changing sync.Mutex

	// mu guards the rest.
	mu      sync.Mutex
	running *life
	calls   *calls
	rules   []byte // the faults as far as they are known, for the next process
	applied int    // directories of manifests that Apply wrote
}

// New returns a server that is ready. It ends with the test, without waiting for clients, and
// nothing of it remains.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := open(context.WithoutCancel(t.Context()), opts) // cleanups come after the end of the context
	if err != nil {
		t.Fatalf("processtest: start a server: %v", err)
	}
	t.Cleanup(func() {
		s.report(t)
		if err := s.close(); err != nil {
			t.Errorf("processtest: end the server: %v", err)
		}
	})
	return s
}

// open starts a server.
func open(ctx context.Context, opts []Option) (s *Server, err error) {
	s = &Server{ctx: ctx}
	for _, o := range opts {
		o(&s.options)
	}
	if s.program, err = find(ctx, s.options); err != nil {
		return nil, err
	}
	if s.dir, err = makeDirectory(); err != nil {
		return nil, err
	}
	if s.port, err = reserve(ctx); err != nil {
		return nil, errors.Join(err, s.dir.remove())
	}
	if err = s.start(); err == nil {
		err = s.keep(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// data is the server's data directory.
func (s *Server) data() string { return filepath.Join(s.dir.path, "data") }

// close kills the process, and removes what is there.
func (s *Server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.running != nil {
		err = s.running.kill()
	}
	return errors.Join(err, s.port.close(), s.dir.remove())
}

func (s *Server) current() *calls {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// RESTConfig returns a client configuration with the administrator's certificate.
func (s *Server) RESTConfig() *rest.Config { return s.current().config() }

// Kubeconfig returns the path of the administrator's kubeconfig, for other programs.
func (s *Server) Kubeconfig() string { return filepath.Join(s.data(), "kubeconfig") }

// URL returns the URL of the server.
func (s *Server) URL() string { return s.current().url }

// User returns a client configuration with a certificate for a user in some groups, who may do
// what roles and bindings allow.
func (s *Server) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	cert, key, err := issue(s.data(), name, groups)
	if err != nil {
		t.Fatalf("processtest: make a certificate for %q: %v", name, err)
	}
	c := s.RESTConfig()
	c.CertData, c.KeyData = cert, key
	return c
}

// Apply applies manifests, each YAML or JSON with one or more objects, as the server does at a
// start: definitions first, and nothing if one of them is wrong. When it returns the objects
// are visible and definitions are served.
func (s *Server) Apply(t testing.TB, manifests ...string) {
	t.Helper()
	s.mu.Lock()
	s.applied++
	dir := filepath.Join(s.dir.path, fmt.Sprintf("apply-%d", s.applied))
	s.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("processtest: keep manifests: %v", err)
	}
	for i, m := range manifests {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), []byte(m), 0o600); err != nil {
			t.Fatalf("processtest: keep manifests: %v", err)
		}
	}
	s.InstallCRDs(t, dir)
}

// InstallCRDs applies the definitions, and any other manifests, in files and directories.
func (s *Server) InstallCRDs(t testing.TB, paths ...string) {
	t.Helper()
	full, err := absolute(paths)
	if err == nil {
		err = s.current().post(t.Context(), "apply", ask{Paths: full}, nil)
	}
	if err != nil {
		t.Fatalf("processtest: apply manifests: %v", err)
	}
}

// absolute returns paths as another process reads them.
func absolute(paths []string) ([]string, error) {
	all := make([]string, len(paths))
	for i, path := range paths {
		var err error
		if all[i], err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("find %s: %w", path, err)
		}
	}
	return all, nil
}

// Compact removes all history, as etcd's compaction does: a watch from an older resource version
// gets 410, of any resource, and so does an expired continue token. It returns the resource
// version up to which history is gone.
func (s *Server) Compact(t testing.TB) kube.ResourceVersion {
	t.Helper()
	return compact(t, func(done *compacted) error { return s.current().post(t.Context(), "compact", ask{}, done) })
}

// CompactHistory removes all history as `gapless serve` and `gapless compact` do it: what nobody
// misses expires nobody. A watch gets 410 only if an object of its resource was updated or deleted
// since. It returns the resource version up to which history is gone.
func (s *Server) CompactHistory(t testing.TB) kube.ResourceVersion {
	t.Helper()
	return compact(t, func(done *compacted) error { return s.current().compactHistory(t.Context(), done) })
}

// compacted is the answer to a compaction.
type compacted struct {
	Compacted string `json:"compacted"`
}

func compact(t testing.TB, ask func(*compacted) error) kube.ResourceVersion {
	t.Helper()
	var done compacted
	if err := ask(&done); err != nil {
		t.Fatalf("processtest: compact: %v", err)
	}
	rv, err := kube.ParseResourceVersion(done.Compacted)
	if err != nil {
		t.Fatalf("processtest: compact: the server answers %q: %v", done.Compacted, err)
	}
	return rv
}

// Reset brings the server back to what it held when it was made, or at the last Keep, for suites
// that share a server, and removes all faults. Finalizers are not waited for. Watches see the
// deletions, and resource versions go on.
func (s *Server) Reset(t testing.TB) {
	t.Helper()
	if err := s.current().post(t.Context(), "reset", ask{}, nil); err != nil {
		t.Fatalf("processtest: reset: %v", err)
	}
	s.know(nil)
}

// Keep makes what the server holds now, such as definitions, what Reset goes back to.
func (s *Server) Keep(t testing.TB) {
	t.Helper()
	if err := s.keep(t.Context()); err != nil {
		t.Fatalf("processtest: keep: %v", err)
	}
}

func (s *Server) keep(ctx context.Context) error {
	return s.current().post(ctx, "keep", ask{}, nil)
}
