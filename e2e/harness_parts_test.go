package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// assembled is a server put together here as Server.Run does it, so that a test
// can choose what is below it, and without sockets.
type assembled struct {
	handler http.Handler // takes everybody for the administrator
	log     *revlog.Log
	garbage *gc.Collector
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
	live := kinds.NewLive(builtin.Catalog())
	garbage := gc.New(gc.Config{Live: live, Logger: slog.New(slog.DiscardHandler), Writable: log.Writable})
	verbs := registry.New(registry.Config{Store: log, Live: live, Collectors: []registry.Collector{garbage}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	logEnded, verbsEnded, garbageEnded := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { logEnded <- log.Run(ctx) }()     // ends with ctx
	go func() { verbsEnded <- verbs.Run(ctx) }() // ends with ctx
	go func() {                                  // ends with ctx
		if verbs.WaitReady(ctx) != nil {
			garbageEnded <- nil // Run of the registry returns the same error
			return
		}
		garbageEnded <- garbage.Run(ctx, verbs)
	}()
	api := apiserver.New(ctx, apiserver.Config{
		Reader: verbs, Writer: verbs, Live: live, Version: gapless.Version(),
		Checks: []apiserver.Check{
			{Name: "etcd", Check: verbs.Ready},
			{Name: "storage-durable", Check: log.Durable},
			{Name: "storage-writes", Check: log.Writable, ReadyOnly: true},
		},
	})
	a := &assembled{log: log, garbage: garbage, handler: asAdministrator(api)}
	stopped := false
	a.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		api.Drain()
		cancel()
		if err := <-garbageEnded; err != nil {
			t.Errorf("garbage collector: %v", err)
		}
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
	subject := pkix.Name{CommonName: "admin", Organization: []string{user.SystemPrivilegedGroup}}
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
