// Package gaplesstest runs an API server inside a test: real HTTP, resource versions,
// watches, admission and garbage collection, in milliseconds and without other programs.
//
// A [Server] is an API server that ends with its test. An [Option]
// changes how it is made. A [Runner] is the tests of a package that share one ([Main]).
//
//	func TestController(t *testing.T) {
//		s := gaplesstest.New(t)
//		s.InstallCRDs(t, "config/crd")
//		client := kubernetes.NewForConfigOrDie(s.RESTConfig())
//		...
//		s.Compact(t) // watches from older resource versions get 410
//		s.Restart(t) // clients reconnect; nothing is lost
//		s.Inject(t, "too-many-requests,verbs=list,count=2")
//	}
//
// Tests may run in parallel, each with a server of its own. When a test fails, its log shows
// the last requests, which watch was where, and what faults did. docs/testing.md says more.
package gaplesstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/baseline"
	"github.com/gapless-io/gapless/internal/faulthost"
	"github.com/gapless-io/gapless/internal/scratch"
	"github.com/gapless-io/gapless/internal/seam"
	"github.com/gapless-io/gapless/kube"
)

// Server is an API server that ends with its test. Its methods are safe for concurrent use;
// those that restart it or change what it stores must not be called at the same time as each
// other. Methods with a testing.TB end that test when they fail.
type Server struct {
	ctx     context.Context //nolint:containedctx // each life of the server runs in it
	options options
	dir     string // of certificates, kubeconfig and manifests
	log     tail
	faults  *fault.Set // of every life of the server
	// background counts restarts by faults.
	background sync.WaitGroup

	// changing is held while the server is started again.
	changing sync.Mutex

	// mu guards the rest.
	mu       sync.Mutex
	running  *run
	baseline *baseline.Baseline
	older    *seam.Disk // the backup
	applied  int        // directories of manifests that Apply wrote
	ended    bool
	failed   []error // of restarts by faults
}

// run is one life of the server: from a start to the next one.
type run struct {
	server   *gapless.Server
	listener *listener
	disk     *seam.Disk
	stop     context.CancelFunc
	ended    chan struct{} // closed at the end, after err was set
	err      error
}

// end stops this life, and returns why it ended.
func (r *run) end() error {
	r.stop()
	<-r.ended
	return closed(r.err)
}

// New returns a server that is ready. It ends with the test, without waiting for clients, and
// nothing of it remains. If the test is killed, the next process that makes a server removes its files.
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	dir, err := scratch.Make("suite") // not t.TempDir, which nobody removes if the test is killed
	if err != nil {
		t.Fatalf("gaplesstest: %v", err)
	}
	t.Cleanup(func() {
		if err := dir.Remove(); err != nil {
			t.Errorf("gaplesstest: %v", err)
		}
	})
	s, err := open(context.WithoutCancel(t.Context()), dir.Path(), opts) // cleanups come after the end of the context
	if err != nil {
		t.Fatalf("gaplesstest: start a server: %v", err)
	}
	t.Cleanup(func() {
		s.report(t)
		if err := s.close(); err != nil {
			t.Errorf("gaplesstest: end the server: %v", err)
		}
	})
	return s
}

// open starts a server with its files in a directory.
func open(ctx context.Context, dir string, opts []Option) (*Server, error) {
	s := &Server{ctx: ctx, dir: dir}
	for _, o := range opts {
		o(&s.options)
	}
	s.faults = fault.New(s.options.seed)
	faulthost.Of(s.faults).SetHost(host{s})
	s.faults.SetLogger(s.log.logger())
	if err := s.start(seam.NewDisk(), "127.0.0.1:0"); err != nil { //nolint:contextcheck // it has ctx
		return nil, err
	}
	if err := s.remember(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// start starts a life of the server with a disk.
func (s *Server) start(disk *seam.Disk, address string) error {
	r := &run{disk: disk, listener: listenMemory(), ended: make(chan struct{})}
	if !s.options.inMemory {
		var err error
		if r.listener, err = listenTCP(s.ctx, address); err != nil {
			return err
		}
	}
	cfg := gapless.Config{
		HistoryBytes: gapless.Forever, History: gapless.Forever, EventTTL: gapless.Forever,
		DisableAdmissionPlugins: []string{"ServiceAccount"}, // as envtest: pods need no accounts
	}
	for _, change := range s.options.change {
		change(&cfg)
	}
	cfg.Memory, cfg.Listener, cfg.Faults, cfg.Logger = true, r.listener, s.faults, s.log.logger()
	cfg.DataDir = filepath.Join(s.dir, "data")
	*seam.Of(&cfg) = seam.Options{Disk: disk, StopAtOnce: true}
	var err error
	if r.server, err = gapless.New(cfg); err != nil {
		return errors.Join(err, r.listener.Close())
	}
	ctx, stop := context.WithCancel(s.ctx)
	r.stop = stop
	go func() { // ends with stop
		defer close(r.ended)
		r.err = r.server.Run(ctx)
	}()
	select {
	case <-r.server.Ready():
	case <-r.ended:
		return errors.Join(r.end(), closed(r.listener.Close()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = r
	return nil
}

// remember makes what the server holds now what Reset goes back to.
func (s *Server) remember() error {
	r := s.current()
	b, err := seam.To(r.server).Baseline(s.ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseline, s.older = b, r.disk.Copy()
	return nil
}

func (s *Server) current() *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// close ends the server at once, as when its process is killed.
func (s *Server) close() error {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.faults.Clear()
	s.background.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(s.failed, s.running.kill())...)
}

// kill ends this life as the end of a process does.
func (r *run) kill() error {
	r.listener.kill()
	return r.end()
}

// closed is err without what only says that the listener is closed already.
func closed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// RESTConfig returns a client configuration with the administrator's certificate.
func (s *Server) RESTConfig() *rest.Config {
	return s.connect(s.current().server.RESTConfig())
}

// connect makes clients of a configuration reach the server, in each of its lives.
func (s *Server) connect(c *rest.Config) *rest.Config {
	if s.options.inMemory {
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.current().listener.dial(ctx) }
	}
	c.QPS = -1 // the server is this test's own: client-go's limit of five requests a second protects nobody
	return c
}

// Kubeconfig returns the path of the administrator's kubeconfig, for other programs. It is of
// no use with WithoutPort.
func (s *Server) Kubeconfig() string { return s.current().server.Kubeconfig() }

// URL returns the URL of the server.
func (s *Server) URL() string { return s.current().server.URL() }

// User returns a client configuration with a certificate for a user in some groups, who may do
// what roles and bindings allow.
func (s *Server) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	c, err := s.current().server.ClientConfig(name, groups...)
	if err != nil {
		t.Fatalf("gaplesstest: %v", err)
	}
	return s.connect(c)
}

// Apply applies manifests, each YAML or JSON with one or more objects, as the server does at a
// start: definitions first, and nothing if one of them is wrong. When it returns the objects
// are visible and definitions are served.
func (s *Server) Apply(t testing.TB, manifests ...string) {
	t.Helper()
	s.mu.Lock()
	s.applied++
	dir := filepath.Join(s.dir, fmt.Sprintf("apply-%d", s.applied))
	s.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("gaplesstest: keep manifests: %v", err)
	}
	for i, m := range manifests {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.yaml", i)), []byte(m), 0o600); err != nil {
			t.Fatalf("gaplesstest: keep manifests: %v", err)
		}
	}
	s.apply(t, dir)
}

// InstallCRDs applies the definitions, and any other manifests, in files and directories.
func (s *Server) InstallCRDs(t testing.TB, paths ...string) {
	t.Helper()
	s.apply(t, paths...)
}

func (s *Server) apply(t testing.TB, paths ...string) {
	t.Helper()
	if _, err := s.current().server.Apply(t.Context(), paths...); err != nil {
		t.Fatalf("gaplesstest: apply manifests: %v", err)
	}
}

// Compact removes all history, as kube-apiserver makes etcd do it every five minutes: every older
// resource version of every resource is expired. A watch from one of them gets 410, and so does a
// continue token. It returns the resource version up to which history is gone, the oldest that a
// watch can begin with.
func (s *Server) Compact(t testing.TB) kube.ResourceVersion {
	t.Helper()
	rv, err := seam.To(s.current().server).CompactEvery(t.Context())
	if err != nil {
		t.Fatalf("gaplesstest: compact: %v", err)
	}
	return rv
}

// CompactHistory removes all history as `gapless serve` and `gapless compact` do it: what nobody
// misses expires nobody. A watch gets 410 only if an object of its resource was updated or deleted
// since. It returns the resource version up to which history is gone.
func (s *Server) CompactHistory(t testing.TB) kube.ResourceVersion {
	t.Helper()
	server := s.current().server
	rv, err := server.ResourceVersion(t.Context())
	if err == nil {
		rv, err = server.Compact(t.Context(), rv)
	}
	if err != nil {
		t.Fatalf("gaplesstest: compact the history: %v", err)
	}
	return rv
}

// Watches returns the watches that are open, the oldest first.
func (s *Server) Watches() []gapless.Watch { return s.current().server.Watches() }

// Reset brings the server back to what it held when it was made, or at the last Keep, for suites
// that share a server, and removes all faults. Finalizers are not waited for. Watches see the
// deletions, and resource versions go on.
func (s *Server) Reset(t testing.TB) {
	t.Helper()
	s.faults.Clear()
	s.mu.Lock()
	b, server := s.baseline, s.running.server
	s.mu.Unlock()
	if err := seam.To(server).Restore(t.Context(), b); err != nil {
		t.Fatalf("gaplesstest: reset: %v", err)
	}
}

// Keep makes what the server holds now, such as definitions, what Reset goes back to.
func (s *Server) Keep(t testing.TB) {
	t.Helper()
	if err := s.remember(); err != nil {
		t.Fatalf("gaplesstest: keep: %v", err)
	}
}
