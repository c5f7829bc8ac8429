package share_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/informer"
	"github.com/gapless-io/gapless/informer/share"
	"github.com/gapless-io/gapless/kube"
)

// cluster is a server of this module inside the test, with real sockets.
type cluster struct {
	*gapless.Server
	t    *testing.T
	http *http.Client
}

func launch(t *testing.T) *cluster {
	t.Helper()
	s, err := gapless.New(gapless.Config{Memory: true, Listen: "127.0.0.1:0"})
	must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	web, err := rest.HTTPClientFor(s.RESTConfig())
	must(t, err)
	t.Cleanup(func() {
		web.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run the server: %v", err)
		}
	})
	return &cluster{Server: s, t: t, http: web}
}

// ask makes one request and returns what was answered.
func (c *cluster) ask(method, path, body string) string {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.URL()+path, strings.NewReader(body))
	must(c.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	must(c.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(c.t, err)
	if resp.StatusCode >= 300 {
		c.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return string(answer)
}

// watches is how many watches of a resource the server has open.
func (c *cluster) watches(resource string) int {
	c.t.Helper()
	n := 0
	lines := bufio.NewScanner(strings.NewReader(c.ask(http.MethodGet, "/metrics", "")))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "apiserver_longrunning_requests{") && strings.Contains(name, `resource="`+resource+`"`) {
			count, err := strconv.Atoi(value)
			must(c.t, err)
			n += count
		}
	}
	return n
}

func (c *cluster) eventually(what string, done func() bool) {
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

const definition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "widgets.example.com"},
	"spec": {
		"group": "example.com", "scope": "Namespaced",
		"names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
		"versions": [{"name": "v1", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
	}
}`

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// TestNothingIsLeftOfADeletedResource: what client-go's shared informers leave behind
// (kubernetes#79610), one watch for each factory that asks again for ever.
func TestNothingIsLeftOfADeletedResource(t *testing.T) {
	c := launch(t)
	c.ask(http.MethodPost, definitions, definition)
	c.eventually("the resource is not served", func() bool {
		return strings.Contains(c.ask(http.MethodGet, "/apis", ""), "example.com")
	})
	pool, stop := running(t, share.Config{})
	defer stop()
	// Something else is watched all the time.
	maps, err := share.Get(pool, informer.For[*corev1.ConfigMap](c.RESTConfig(), corev1.SchemeGroupVersion.WithResource("configmaps")))
	must(t, err)
	must(t, maps.WaitSynced(t.Context()))

	widgets := func() informer.Source[*book] {
		gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
		return informer.For[*book](c.RESTConfig(), gvr) // a new source, a new configuration, the same objects
	}
	before := goleak.IgnoreCurrent()
	var leases []*share.Lease[*book]
	for range 3 {
		l := take(t, pool, widgets())
		l.Reconcile(func(context.Context, informer.Key) error { return nil }, informer.Workers(3))
		must(t, l.WaitSynced(t.Context()))
		leases = append(leases, l)
	}
	c.ask(http.MethodPost, "/apis/example.com/v1/namespaces/default/widgets",
		`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"value":1}`)
	_, err = leases[2].Until(t.Context(), keyOf("w"), func(_ *book, found bool) bool { return found })
	must(t, err)
	if n := c.watches("widgets"); n != 1 {
		t.Errorf("three leases have %d watches", n)
	}

	c.ask(http.MethodDelete, definitions+"/widgets.example.com", "")
	c.eventually("the informer does not notice", func() bool { return leases[0].Status().Incidents[informer.NotServed] > 0 })
	for _, l := range leases {
		must(t, l.Release(t.Context()))
	}
	goleak.VerifyNone(t, before)
	if n := c.watches("widgets"); n != 0 {
		t.Errorf("%d watches are left", n)
	}
	if status := maps.Status(); status.State != "watching" || status.Watches != 0 {
		t.Errorf("another resource's informer: %+v", status)
	}

	// It comes back, and so does who wants it.
	c.ask(http.MethodPost, definitions, definition)
	again := take(t, pool, widgets())
	must(t, again.WaitSynced(t.Context()))
	if again.Len() != 0 {
		t.Errorf("%d objects survived their definition", again.Len())
	}
	must(t, again.Release(t.Context()))
	must(t, maps.Release(t.Context()))
}

func TestAllLeasesHearThatTheServerRefuses(t *testing.T) {
	c := launch(t)
	pool, stop := running(t, share.Config{})
	defer stop()
	gadgets := informer.For[*book](c.RESTConfig(), schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"})
	first, second := take(t, pool, gadgets, informer.Stop4xx()), take(t, pool, gadgets, informer.Stop4xx())
	for _, l := range []*share.Lease[*book]{first, second} {
		if err := l.WaitSynced(t.Context()); kube.Classify(err) != kube.OutcomeNotFound {
			t.Errorf("a lease of what is not there says %v", err)
		}
	}
	must(t, first.Release(t.Context()))
	must(t, second.Release(t.Context()))
}
