package relay_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless/gaplesstest"
	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tested is a relay in front of a server, over real sockets. Everybody may read everything.
type tested struct {
	relay   *relay.Relay
	mirror  *mirror.Mirror
	url     string
	handler http.Handler // what answers at url
	stop    func()       // ends the relay, as the end of the test does
	passed  atomic.Int64
}

// passTo passes requests on to upstream.
func passTo(t testing.TB, upstream *rest.Config) http.Handler {
	t.Helper()
	client, err := rest.HTTPClientFor(upstream)
	if err != nil {
		t.Fatalf("make an HTTP client: %v", err)
	}
	to, _, err := rest.DefaultServerUrlFor(upstream)
	if err != nil {
		t.Fatalf("default server url for: %v", err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: client.Transport, FlushInterval: -1,
	}
}

// anybody lets everybody in.
type anybody struct{}

func (anybody) Authenticate(*http.Request) (user.Info, error) {
	return &user.DefaultInfo{Name: "someone"}, nil
}

// openRelay mirrors upstream until the test ends, in dir or ("") in memory. A request that the
// relay does not serve is 501.
func openRelay(t testing.TB, upstream *rest.Config, dir string, change func(*relay.Config)) *tested {
	t.Helper()
	m, err := mirror.Open(t.Context(), mirror.Options{Dir: dir, Memory: dir == ""})
	if err != nil {
		t.Fatalf("open the mirror: %v", err)
	}
	upstream = rest.CopyConfig(upstream)
	upstream.UserAgent = "gapless-relay"
	cfg := relay.Config{Upstream: upstream, Mirror: m}
	if change != nil {
		change(&cfg)
	}
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatalf("make a relay: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	below, cancelBelow := context.WithCancel(context.Background())
	logEnded, ended := make(chan error, 1), make(chan error, 1)
	go func() { logEnded <- m.Run(below) }() // stop waits for it
	go func() { ended <- r.Run(ctx) }()      // stop waits for it
	s := &tested{relay: r, mirror: m}
	passing := passTo(t, upstream)
	api := apiserver.New(ctx, apiserver.Config{
		Reader: r.Reader(), Live: r.Live(), Authenticator: anybody{}, Authorizer: auth.AlwaysAllow{}, Count: r.Count,
	})
	fallback := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.passed.Add(1)
		passing.ServeHTTP(w, r)
	})
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		of, served := r.Reading(req)
		if !served {
			http.Error(w, "this is for upstream: "+req.URL.String(), http.StatusNotImplemented)
			return
		}
		of.Asked.Fallback = fallback
		api.ServeReading(w, req, of.Route, &of.Asked)
	})
	web := httptest.NewServer(s.handler)
	stopped := false
	s.url, s.stop = web.URL, func() {
		if stopped {
			return
		}
		stopped = true
		api.Drain()
		cancel()
		err := <-ended
		web.CloseClientConnections()
		web.Close()
		cancelBelow()
		if err := errors.Join(err, <-logEnded, m.Close()); err != nil {
			t.Errorf("wait for log ended and close: %v", err)
		}
	}
	t.Cleanup(s.stop)
	if err := r.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	return s
}

func (s *tested) config() *rest.Config { return &rest.Config{Host: s.url} }

func clientset(t testing.TB, cfg *rest.Config) *kubernetes.Clientset {
	t.Helper()
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("make a client: %v", err)
	}
	return set
}

// eventually waits until holds returns "", or fails with what it returned last.
func eventually(t testing.TB, holds func() string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		text := holds()
		if text == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(text)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(text)
		}
	}
}

func open(t *testing.T) (*gaplesstest.Server, *kubernetes.Clientset) {
	t.Helper()
	s := gaplesstest.New(t)
	return s, clientset(t, s.RESTConfig())
}
