package e2e_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
	"github.com/gapless-io/gapless/kube"
)

// widget is the objects' type in these tests.
type widget struct {
	metav1.TypeMeta   `json:""`
	metav1.ObjectMeta `json:"metadata"`
	Value             int `json:"value"`
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// runPool is a pool that runs until stop is called.
func runPool(t *testing.T) (pool *share.Pool, stop func()) {
	t.Helper()
	pool = share.New(share.Config{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }() // ends with ctx
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return pool, stop
}

// lease takes a lease that the test must get.
func lease(t *testing.T, pool *share.Pool, source informer.Source[*widget], opts ...informer.Option) *share.Lease[*widget] {
	t.Helper()
	l, err := share.Get(pool, source, opts...)
	noError(t, err)
	return l
}

// sharedServer is a server of this module inside the test, with real sockets.
type sharedServer struct {
	*gapless.Server
	t    *testing.T
	http *http.Client
}

func launchShared(t *testing.T) *sharedServer {
	t.Helper()
	s, err := gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0"})
	noError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	web, err := rest.HTTPClientFor(s.RESTConfig())
	noError(t, err)
	t.Cleanup(func() {
		web.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run the server: %v", err)
		}
	})
	return &sharedServer{Server: s, t: t, http: web}
}

// ask makes one request and returns what was answered.
func (c *sharedServer) ask(method, path, body string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.URL()+path, strings.NewReader(body))
	noError(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	noError(c.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	noError(c.t, err)
	if resp.StatusCode >= 300 {
		c.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return string(answer)
}

// watches is how many watches of a resource the server has open.
func (c *sharedServer) watches(resource string) int {
	c.t.Helper()
	n := 0
	lines := bufio.NewScanner(strings.NewReader(c.ask(http.MethodGet, "/metrics", "")))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "apiserver_longrunning_requests{") && strings.Contains(name, `resource="`+resource+`"`) {
			count, err := strconv.Atoi(value)
			noError(c.t, err)
			n += count
		}
	}
	return n
}

func (c *sharedServer) eventually(what string, done func() bool) {
	c.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-c.t.Context().Done():
			c.t.Fatal(what)
		}
	}
}

const widgetDefinition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "widgets.example.com"},
	"spec": {
		"group": "example.com", "scope": "Namespaced",
		"names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
		"versions": [{"name": "v1", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
	}
}`

const widgetDefinitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// TestSharedInformerOfADeletedResourceEnds: what client-go's shared informers leave behind
// (kubernetes#79610), one watch for each factory, which retries indefinitely.
func TestSharedInformerOfADeletedResourceEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("not of the core set of tests of whole servers")
	}
	c := launchShared(t)
	c.ask(http.MethodPost, widgetDefinitions, widgetDefinition)
	c.eventually("the resource is not served", func() bool {
		return strings.Contains(c.ask(http.MethodGet, "/apis", ""), "example.com")
	})
	pool, stop := runPool(t)
	defer stop()
	// Something else is watched all the time.
	maps, err := share.Get(pool,
		informer.For[*corev1.ConfigMap](c.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps")))
	noError(t, err)
	noError(t, maps.WaitSynced(t.Context()))

	widgets := func() informer.Source[*widget] {
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		return informer.For[*widget](c.RESTConfig(), gvr) // a new source, a new configuration, the same objects
	}
	before := goleak.IgnoreCurrent()
	var leases []*share.Lease[*widget]
	for range 3 {
		l := lease(t, pool, widgets())
		l.Reconcile(func(context.Context, informer.Key) error { return nil }, informer.Workers(3))
		noError(t, l.WaitSynced(t.Context()))
		leases = append(leases, l)
	}
	c.ask(http.MethodPost, "/apis/example.com/v1/namespaces/default/widgets",
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"value":1}`)
	_, err = leases[2].Until(t.Context(), informer.Key{Namespace: "default", Name: "w"}, func(_ *widget, found bool) bool {
		return found
	})
	noError(t, err)
	if n := c.watches("widgets"); n != 1 {
		t.Errorf("three leases have %d watches", n)
	}

	c.ask(http.MethodDelete, widgetDefinitions+"/widgets.example.com", "")
	c.eventually("the informer does not notice", func() bool { return leases[0].Status().Incidents[informer.NotServed] > 0 })
	for _, l := range leases {
		noError(t, l.Release(t.Context()))
	}
	goleak.VerifyNone(t, before)
	if n := c.watches("widgets"); n != 0 {
		t.Errorf("%d watches are left", n)
	}
	if status := maps.Status(); status.State != "watching" || status.Watches != 0 {
		t.Errorf("another resource's informer: %+v", status)
	}

	// The resource is created again, and used again.
	c.ask(http.MethodPost, widgetDefinitions, widgetDefinition)
	again := lease(t, pool, widgets())
	noError(t, again.WaitSynced(t.Context()))
	if again.Len() != 0 {
		t.Errorf("%d objects survived their definition", again.Len())
	}
	noError(t, again.Release(t.Context()))
	noError(t, maps.Release(t.Context()))
}

func TestEveryLeaseGetsTheServersRefusal(t *testing.T) {
	c := launchShared(t)
	pool, stop := runPool(t)
	defer stop()
	gadgets := informer.For[*widget](c.RESTConfig(), schema.GroupVersionResource{
		Group: "example.com", Version: "v1", Resource: "gadgets",
	})
	first, second := lease(t, pool, gadgets, informer.Stop4xx()), lease(t, pool, gadgets, informer.Stop4xx())
	for _, l := range []*share.Lease[*widget]{first, second} {
		if err := l.WaitSynced(t.Context()); kube.Classify(err) != kube.OutcomeNotFound {
			t.Errorf("a lease of what is not there says %v", err)
		}
	}
	noError(t, first.Release(t.Context()))
	noError(t, second.Release(t.Context()))
}
