package bootstrap_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a registry over a log in memory, which outlives it.
type cluster struct {
	*registry.Registry
	t    testing.TB
	log  *revlog.Log
	live *kinds.Live
	stop func()
}

// openLog returns a log in memory that runs until the test ends.
func openLog(t testing.TB) *revlog.Log {
	t.Helper()
	log, err := revlog.Open(t.Context(), revlog.Options{Memory: true})
	if err != nil {
		t.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(t.Context())) }() // ends with Close
	t.Cleanup(func() {
		if err := errors.Join(log.Close(), <-ended); err != nil {
			t.Errorf("the log: %v", err)
		}
	})
	return log
}

// keep runs a registry over a log, and a controller of its objects, until the test or
// stop ends them. ca is nil for a controller of the server's own objects only.
func keep(t testing.TB, log *revlog.Log, address string, ca []byte) *cluster {
	t.Helper()
	return keepBy(t, log, func(c *cluster) bootstrap.Config {
		return bootstrap.Config{Verbs: c, Address: netip.MustParseAddrPort(address), CA: ca}
	})
}

// keepBy is keep with a configuration; its Live and Logger are filled in.
func keepBy(t testing.TB, log *revlog.Log, configure func(c *cluster) bootstrap.Config) *cluster {
	t.Helper()
	c := &cluster{t: t, log: log, live: kinds.NewLive(builtin.Catalog())}
	c.Registry = registry.New(registry.Config{Store: log, Live: c.live})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 2)
	go func() { ended <- c.Run(ctx) }() // ends with ctx
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	cfg := configure(c)
	cfg.Live, cfg.Logger = c.live, slog.New(slog.DiscardHandler)
	k := bootstrap.New(cfg)
	k.Make(ctx)
	go func() { ended <- k.Run(ctx) }() // ends with ctx
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(c.stop)
	return c
}

// at is the target of "configmaps" or "apps/deployments", then namespace and name.
func (c *cluster) at(group, plural string, place ...string) kinds.Target {
	c.t.Helper()
	r, found := c.live.Load().Storage(kinds.GroupResource{Group: group, Resource: plural})
	if !found {
		c.t.Fatalf("no resource %s", plural)
	}
	place = append(place, "", "")
	return kinds.Target{Resource: r, Namespace: place[0], Name: place[1]}
}

// find returns an object; nil when there is none.
func (c *cluster) find(t kinds.Target) *wire.Object {
	c.t.Helper()
	o, err := c.Get(c.t.Context(), t, "")
	if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Reason == metav1.StatusReasonNotFound {
		return nil
	}
	if err != nil {
		c.t.Fatalf("get: %v", err)
	}
	return o
}

// eventually waits until an object satisfies a condition; it gets nil if there is none.
func (c *cluster) eventually(t kinds.Target, what string, ok func(o *wire.Object) bool) *wire.Object {
	c.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		o := c.find(t)
		if ok(o) {
			return o
		}
		select {
		case <-tick.C:
		case <-c.t.Context().Done():
			c.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (c *cluster) create(t kinds.Target, body string) {
	c.t.Helper()
	if _, err := c.Create(c.t.Context(), t, []byte(body), metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("create %s: %v", body, err)
	}
}

func (c *cluster) merge(t kinds.Target, patch string) {
	c.t.Helper()
	if _, err := c.Patch(c.t.Context(), t, wire.Patch{Type: types.MergePatchType, Body: []byte(patch)},
		metav1.PatchOptions{}); err != nil {
		c.t.Fatalf("patch %s: %v", patch, err)
	}
}

func (c *cluster) delete(t kinds.Target) {
	c.t.Helper()
	if _, err := c.Delete(c.t.Context(), t, metav1.DeleteOptions{}); err != nil {
		c.t.Fatalf("delete: %v", err)
	}
}

// revision is that of the last write.
func (c *cluster) revision() int64 {
	c.t.Helper()
	rv, err := c.log.Progress(c.t.Context())
	if err != nil {
		c.t.Fatalf("progress log: %v", err)
	}
	return rv
}

// count is how many objects a resource has.
func (c *cluster) count(t kinds.Target) int {
	c.t.Helper()
	list, err := c.List(c.t.Context(), t, wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything()})
	if err != nil {
		c.t.Fatalf("list: %v", err)
	}
	n := 0
	for _, err := range list.Items {
		if err != nil {
			c.t.Fatal(err)
		}
		n++
	}
	return n
}

// read decodes an object.
func read[T any](t testing.TB, o *wire.Object) *T {
	t.Helper()
	if o == nil {
		t.Fatal("there is no such object")
	}
	typed := new(T)
	if err := json.Unmarshal(o.JSON(), typed); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return typed
}
