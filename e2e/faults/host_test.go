package faults_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless"
	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/fault"
	"github.com/gapless-io/gapless/internal/faulthost"
	"github.com/gapless-io/gapless/internal/seam"
)

// host restarts a server with other data, on the same address.
type host struct {
	address, dir string
	faults       *fault.Set
	restarts     chan fault.Store

	// What follows is used by one goroutine at a time: start, and then run.
	disk, backup *seam.Disk
	server       *gapless.Server
	stop         context.CancelFunc
	ended        chan error
}

// Backup implements faulthost.Host.
func (h *host) Backup() error {
	h.backup = h.disk.Copy()
	return nil
}

// Restart implements faulthost.Host.
func (h *host) Restart(with string) error {
	h.restarts <- fault.Store(with)
	return nil
}

func (h *host) start() error {
	cfg := gapless.Config{Memory: true, DataDir: h.dir, Listen: h.address, Faults: h.faults, Bootstrap: gapless.BootstrapNone}
	seam.Of(&cfg).Disk = h.disk
	s, err := gapless.New(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	h.server, h.stop, h.ended = s, stop, make(chan error, 1)
	go func() { h.ended <- s.Run(ctx) }() // ends with stop
	select {
	case <-s.Ready():
		return nil
	case err := <-h.ended:
		h.ended <- nil
		return errors.Join(err, errors.New("it does not start"))
	}
}

// again restarts the server as it was asked to.
func (h *host) again(with fault.Store) error {
	h.stop()
	if err := <-h.ended; err != nil {
		return err
	}
	switch with {
	case fault.WipedStore:
		h.disk = seam.NewDisk()
	case fault.OlderStore:
		h.disk = h.backup.Copy()
	case fault.SameStore:
	}
	return h.start()
}

// TestServerIsRestartedWithTheDataOfTheRule by the host of the server, as package gaplesstest is.
func TestServerIsRestartedWithTheDataOfTheRule(t *testing.T) {
	h := &host{
		address: "127.0.0.1:0", dir: t.TempDir(), faults: fault.New(1), restarts: make(chan fault.Store, 1), disk: seam.NewDisk(),
	}
	if err := h.start(); err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		h.faults.Clear()
		h.stop()
		if err := <-h.ended; err != nil {
			t.Errorf("wait for the end: %v", err)
		}
	})
	u, err := url.Parse(h.server.URL())
	if err != nil {
		t.Fatalf("parse an address: %v", err)
	}
	h.address = u.Host
	faulthost.Of(h.faults).SetHost(h)
	c := clientOf(t, h.server.RESTConfig(), http1)
	of := client.Collection{Namespace: "default"}
	of.Version, of.Resource = "v1", "configmaps"
	for _, step := range []struct {
		with fault.Store
		want int // objects
	}{{fault.SameStore, 2}, {fault.OlderStore, 1}, {fault.WipedStore, 0}} {
		if step.with != fault.WipedStore { // there is one from before
			if err := do(t, c, client.Request{Method: http.MethodDelete, Path: of.Path()}); err != nil {
				t.Fatalf("run: %v", err)
			}
		}
		before := "before-" + string(step.with)
		if step.with != fault.WipedStore {
			add(t, c, of, before)
		}
		rule := fault.Rule{
			Name: "restart", Match: fault.Match{UserAgents: []string{"*"}, Verbs: []string{"list"}},
			Action: &fault.Restart{Store: step.with}, Count: 1,
		}
		if err := h.faults.Add(rule); err != nil {
			t.Fatalf("add the rule: %v", err)
		}
		if step.with != fault.WipedStore {
			add(t, c, of, "after-"+string(step.with))
		}
		_, _, _ = list(t, c, of, metav1.ListOptions{}) // it restarts the server; net/http may repeat it
		if err := h.again(<-h.restarts); err != nil {
			t.Fatalf("again: %v", err)
		}
		c = clientOf(t, h.server.RESTConfig(), http1)
		if _, n, err := list(t, c, of, metav1.ListOptions{}); n != step.want || err != nil {
			t.Errorf("%s: %d objects, want %d, %v", step.with, n, step.want, err)
		}
		h.faults.Clear()
	}
}

// TestFailuresThatLastForAWhileOrInOnePlace: the window, the count and the match of rules say
// where and how long.
func TestFailuresThatLastForAWhileOrInOnePlace(t *testing.T) {
	s := launch(t)
	of, other := configMaps(t, s), configMaps(t, s)
	c := clientOf(t, s.RESTConfig(), http2)
	lists := func(of client.Collection, rv string) string {
		_, _, err := list(t, c, of, metav1.ListOptions{ResourceVersion: rv})
		return outcome(err)
	}
	rules := []fault.Rule{
		{Name: "forbidden", Match: fault.Match{Namespaces: []string{of.Namespace}}, Action: &fault.Forbidden{}},
	}
	if err := s.faults.Add(rules...); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	if here, there := lists(of, ""), lists(other, ""); here != "403" || there != "200" {
		t.Errorf("forbidden in one namespace: %s, in the other %s", here, there)
	}
	s.faults.Clear()
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Until: 500 * time.Millisecond}, Action: &fault.Unauthorized{},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	eventually(t, "the time without credentials is over", func() bool { return lists(of, "") == "200" })
	if s.faults.Rules()[0].Matched < 1 {
		t.Error("no request was in the window")
	}
	s.faults.Clear()
	if err := s.faults.Add(fault.Rule{Action: &fault.TooLarge{}, Count: 1}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	for i, want := range []string{"504 after 1", "200"} {
		if got := lists(of, "5"); got != want {
			t.Errorf("too large once, request %d: %s", i+1, got)
		}
	}
	s.faults.Clear()
	if err := s.faults.Add(fault.Rule{Action: &fault.TooLarge{}}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	for range 3 {
		if got := lists(of, "5"); got != "504 after 1" {
			t.Errorf("too large forever: %s", got)
		}
	}
	if got := lists(of, ""); got != "200" {
		t.Errorf("too large, without a resourceVersion: %s", got)
	}
	s.faults.Clear()
	if err := s.faults.Add(fault.Rule{
		Match: fault.Match{Verbs: []string{"update"}, Nth: 2}, Action: &fault.Conflict{},
	}); err != nil {
		t.Fatalf("add the rule: %v", err)
	}
	put := client.Request{Method: http.MethodPut, Path: of.Path() + "/a", Body: []byte(`{"metadata":{"name":"a"}}`)}
	for i, want := range []string{"200", "409", "200"} {
		if got := outcome(do(t, c, put)); got != want {
			t.Errorf("conflict on the second write: write %d: %s", i+1, got)
		}
	}
}
