package gapless_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/builtin"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/store/revlog/disk"
)

// assembled is a server put together here as Server.Run does it, so that a test
// can choose what is below it, and without sockets.
type assembled struct {
	handler http.Handler // takes everybody for the administrator
	log     *revlog.Log
	// stop drains and ends everything. Its error is that of the log: a disk that
	// failed.
	stop func() error
}

// assemble runs the parts of a server until the test ends.
func assemble(t testing.TB, o revlog.Options) *assembled {
	t.Helper()
	log, err := revlog.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	live := schema.NewLive(builtin.Catalog())
	verbs := registry.New(registry.Config{Store: log, Live: live})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	logEnded, verbsEnded := make(chan error, 1), make(chan error, 1)
	go func() { logEnded <- log.Run(ctx) }()     // ends with ctx
	go func() { verbsEnded <- verbs.Run(ctx) }() // ends with ctx
	door := apiserver.New(ctx, apiserver.Config{
		Reader: verbs, Writer: verbs, Live: live, Version: gapless.Version(),
		Checks: []apiserver.Check{{Name: "etcd", Check: verbs.Ready}},
	})
	a := &assembled{log: log, handler: asAdministrator(door)}
	stopped := false
	a.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		door.Drain()
		cancel()
		if err := <-verbsEnded; err != nil {
			t.Errorf("registry: %v", err)
		}
		failed := <-logEnded
		if err := log.Close(); err != nil && failed == nil {
			t.Errorf("close the log: %v", err)
		}
		return failed
	}
	t.Cleanup(func() { _ = a.stop() }) // tests of failing disks look at it themselves
	if err := verbs.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until ready: %v", err)
	}
	return a
}

// asAdministrator makes requests look as if a verified certificate had come with
// them.
func asAdministrator(next http.Handler) http.Handler {
	subject := pkix.Name{CommonName: "admin", Organization: []string{auth.Masters}}
	state := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: subject}}}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.TLS = state
		next.ServeHTTP(w, r)
	})
}

// caller reaches the server over a plain socket.
func (a *assembled) caller(t testing.TB) *caller {
	t.Helper()
	s := httptest.NewServer(a.handler)
	t.Cleanup(s.Close)
	return &caller{t: t, base: s.URL, http: s.Client(), wire: http1}
}

// failingFS is a file system whose calls fail when they are told to.
type failingFS struct {
	disk.FS

	why atomic.Pointer[failure]
}

// failure is the error of some kinds of calls.
type failure struct {
	err error
	ops map[string]bool
}

// fail makes the named calls ("create", "write", "sync", "allocate") fail from
// now on; a nil err ends that.
func (f *failingFS) fail(err error, ops ...string) {
	why := &failure{err: err, ops: map[string]bool{}}
	for _, op := range ops {
		why.ops[op] = true
	}
	f.why.Store(why)
}

func (f *failingFS) call(op string) error {
	if why := f.why.Load(); why != nil && why.ops[op] {
		return why.err
	}
	return nil
}

func (f *failingFS) Create(name string) (disk.File, error) {
	if err := f.call("create"); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name)
	return failingFile{file, f}, err
}

func (f *failingFS) Open(name string) (disk.File, int64, error) {
	file, size, err := f.FS.Open(name)
	return failingFile{file, f}, size, err
}

type failingFile struct {
	disk.File

	fs *failingFS
}

func (f failingFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.fs.call("write"); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f failingFile) Sync() error {
	if err := f.fs.call("sync"); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f failingFile) Allocate(size int64) error {
	if err := f.fs.call("allocate"); err != nil {
		return err
	}
	return f.File.Allocate(size)
}

// poisoned says whether err is that of a disk that failed.
func poisoned(err error) bool {
	_, is := errors.AsType[*store.PoisonedError](err)
	return is
}
