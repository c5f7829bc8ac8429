// Package rigtest runs a controller against a server of this module, under failures
// that a test causes.
//
// A [Rig] is a server behind a gate. The controller connects through the gate, the test
// directly. A [Write] is a request of the controller that changes an object, which the test
// counts, delays or refuses.
package rigtest

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/kube"
)

// Write is a request of the controller that changes an object.
type Write struct {
	Method, Path string
	Code         int // of the response; 0: there was none
}

// Rig is a server, a gate and a controller. Its methods are called by the test's
// goroutine.
type Rig struct {
	t      testing.TB
	dir    string
	gate   *gate
	server *gapless.Server
	stop   func()
	direct dynamic.Interface

	// mu guards what is below.
	mu       sync.Mutex
	writes   []Write
	inFlight int // writes without a response
	fault    func(*http.Request) error
}

// New starts a server with data on disk. It ends with the test.
func New(t testing.TB) *Rig {
	t.Helper()
	r := &Rig{t: t, dir: t.TempDir(), gate: openGate(t)}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *Rig) start() {
	r.t.Helper()
	server, err := gapless.New(gapless.Config{DataDir: r.dir, Listen: "127.0.0.1:0"})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }() // ends with stop
	select {
	case <-server.Ready():
	case err := <-ended:
		cancel()
		r.t.Fatalf("the server has ended: %v", err)
	}
	cfg := server.RESTConfig()
	cfg.QPS = -1 // no rate limit
	web, err := rest.HTTPClientFor(cfg)
	if err != nil {
		r.t.Error(err)
	}
	if r.direct, err = dynamic.NewForConfigAndClient(cfg, web); err != nil {
		r.t.Error(err)
	}
	r.server = server
	r.stop = sync.OnceFunc(func() {
		web.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("run the server: %v", err)
		}
	})
	r.gate.lead(strings.TrimPrefix(server.URL(), "https://"))
}

// Restart stops the server, with all of its connections, and starts it again with the
// same data.
func (r *Rig) Restart() {
	r.t.Helper()
	r.gate.Shut()
	r.stop()
	r.start()
	r.gate.Open()
}

// Away disconnects the controller, calls do, compacts the history and reconnects the
// controller: its watches get 410 Gone.
func (r *Rig) Away(do func()) {
	r.t.Helper()
	r.gate.Shut()
	defer r.gate.Open()
	do()
	list, err := r.direct.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(r.t.Context(),
		metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	rv, err := kube.ParseResourceVersion(list.GetResourceVersion())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.server.Compact(r.t.Context(), rv); err != nil {
		r.t.Fatal(err)
	}
}

// Cut breaks all of the controller's connections.
func (r *Rig) Cut() { r.gate.Cut() }

// Config is the configuration of the controller, whose requests go through the gate
// and whose writes are counted.
func (r *Rig) Config() *rest.Config {
	cfg := r.server.RESTConfig()
	cfg.Host = "https://" + r.gate.address()
	cfg.QPS = -1 // no rate limit, so that the test sees every write
	cfg.WrapTransport = func(next http.RoundTripper) http.RoundTripper { return &counter{rig: r, next: next} }
	return cfg
}

// Run runs a controller until the returned function is called.
func (r *Rig) Run(control func(context.Context, *rest.Config) error) (stop func()) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- control(ctx, r.Config()) }() // ends with stop
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the controller ends: %v", err)
		}
		r.gate.Cut()
	})
	r.t.Cleanup(stop)
	return stop
}

// Before sets a function that is called before each write. If it returns an error, the
// controller gets that error and the write is not sent. nil removes the function.
func (r *Rig) Before(f func(*http.Request) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
}

// Writes returns the writes since the last call. It waits for those in flight, because
// the server shows their effect before the controller has the response.
func (r *Rig) Writes() []Write {
	r.t.Helper()
	r.Eventually(func() string {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.inFlight > 0 {
			return "a write gets no response"
		}
		return ""
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	writes := r.writes
	r.writes = nil
	return writes
}

// Objects returns a client of a resource that does not go through the gate.
func (r *Rig) Objects(group, version, resource string) dynamic.NamespaceableResourceInterface {
	return r.direct.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
}

// Create creates an object.
func (r *Rig) Create(in dynamic.ResourceInterface, object map[string]any) {
	r.t.Helper()
	if _, err := in.Create(r.t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// Eventually waits until done returns "", and not what is missing. After a minute the
// test fails with that text.
func (r *Rig) Eventually(done func() string) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for {
		what := done()
		if what == "" {
			return
		}
		select {
		case <-tick.C:
		case <-limit.C:
			r.t.Fatal(what)
		}
	}
}

// Retries is how often a key may be retried within a time, however long the server is
// away: first after 200 ms, then after twice as long each time ([informer.Retry]). A
// loop without backoff would try thousands of times.
func Retries(within time.Duration) int {
	return int(math.Log2(1 + within.Seconds()/0.2))
}

// counter is the controller's transport.
type counter struct {
	rig  *Rig
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet {
		return c.next.RoundTrip(req)
	}
	c.rig.mu.Lock()
	fault := c.rig.fault
	c.rig.inFlight++
	c.rig.mu.Unlock()
	w := Write{Method: req.Method, Path: req.URL.Path}
	var resp *http.Response
	var err error
	if fault != nil {
		err = fault(req)
	}
	if err == nil {
		resp, err = c.next.RoundTrip(req)
	}
	if err == nil {
		w.Code = resp.StatusCode
	}
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	c.rig.writes = append(c.rig.writes, w)
	c.rig.inFlight--
	return resp, err
}

// ErrLost is for Before: the write did not get through.
var ErrLost = errors.New("the write was lost")

// Lost is a Before that loses the next n writes.
func Lost(n int) func(*http.Request) error {
	var mu sync.Mutex
	return func(*http.Request) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return ErrLost
		}
		return nil
	}
}
