package addresses_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/net"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/addresses"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a registry with an allocator over a log, which outlives both.
type cluster struct {
	*registry.Registry

	t         testing.TB
	live      *kinds.Live
	allocator *addresses.Allocator // nil: Services get nothing, as in earlier versions
	stop      func()
}

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

// verbs is the registry for the allocator, which is made before it.
type verbs struct{ *registry.Registry }

// settings are what a test's cluster is; the zero value has the ranges 10.0.0.0/24, not named, and 30000-32767.
type settings struct {
	ranges, ports string
	none          bool // there is no allocator
}

// open runs a registry until the test or stop ends it.
func open(t testing.TB, in store.Store, s settings) *cluster {
	t.Helper()
	c := &cluster{t: t, live: kinds.NewLive(builtin.Catalog())}
	cfg := registry.Config{Store: in, Live: c.live}
	late := &verbs{}
	if !s.none {
		ports, err := net.ParsePortRange(orDefault(s.ports, "30000-32767"))
		if err != nil {
			t.Fatalf("parse a range: %v", err)
		}
		var ranges []netip.Prefix
		for text := range strings.SplitSeq(orDefault(s.ranges, "10.0.0.0/24"), ",") {
			ranges = append(ranges, netip.MustParsePrefix(text))
		}
		c.allocator = addresses.New(addresses.Config{
			Verbs: late, Live: c.live, Ranges: ranges, Named: s.ranges != "", NodePorts: *ports,
			Logger: slog.New(slog.DiscardHandler),
		})
		cfg.Followers = []registry.Follower{c.allocator}
		cfg.Allocators = map[kinds.GroupResource]registry.Allocator{addresses.ServicesResource(): c.allocator}
	}
	c.Registry = registry.New(cfg)
	late.Registry = c.Registry
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }() // ends with ctx
	if err := c.WaitReady(t.Context()); err != nil {
		t.Fatalf("wait until it is ready: %v", err)
	}
	var stopped atomic.Bool
	c.stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(c.stop)
	return c
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (c *cluster) at(gr kinds.GroupResource, name string) kinds.Target {
	r, found := c.live.Load().Storage(gr)
	if !found {
		c.t.Fatalf("no resource %s", gr)
	}
	t := kinds.Target{Resource: r, Name: name}
	if r.Namespaced {
		t.Namespace = "default"
	}
	return t
}

// try creates a Service with a spec in JSON or YAML.
func (c *cluster) try(name, text string) (*corev1.Service, error) {
	body, err := yaml.YAMLToJSON(fmt.Appendf(nil, "{metadata: {name: %s}, spec: %s}", name, text))
	if err != nil {
		return nil, err
	}
	made, err := c.Create(c.t.Context(), c.at(addresses.ServicesResource(), ""), body, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return c.decode(made.Object), nil
}

func (c *cluster) decode(o *wire.Object) *corev1.Service {
	s := &corev1.Service{}
	if err := yaml.Unmarshal(o.JSON(), s); err != nil {
		c.t.Errorf("read a Service: %v", err)
	}
	return s
}

func (c *cluster) create(name, text string) *corev1.Service {
	c.t.Helper()
	s, err := c.try(name, text)
	if err != nil {
		c.t.Fatalf("create the Service %s: %v", name, err)
	}
	return s
}

func (c *cluster) patch(name, text string) (*corev1.Service, error) {
	c.t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		c.t.Fatalf("a patch: %v", err)
	}
	out, err := c.Patch(c.t.Context(), c.at(addresses.ServicesResource(), name),
		wire.Patch{Type: types.MergePatchType, Body: body}, metav1.PatchOptions{})
	if err != nil {
		return nil, err
	}
	return c.decode(out.Object), nil
}

func (c *cluster) remove(gr kinds.GroupResource, name string) {
	c.t.Helper()
	if _, err := c.Delete(c.t.Context(), c.at(gr, name), metav1.DeleteOptions{}); err != nil {
		c.t.Fatalf("delete %s: %v", name, err)
	}
}

// taken are the names of the IPAddresses with their Services.
func (c *cluster) taken() []string {
	c.t.Helper()
	list, err := c.List(c.t.Context(), c.at(addresses.AddressesResource(), ""),
		wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything()})
	if err != nil {
		c.t.Fatalf("list the IPAddresses: %v", err)
	}
	var all []string
	for o, err := range list.Items {
		if err != nil {
			c.t.Fatalf("list the IPAddresses: %v", err)
		}
		all = append(all, o.Key().Name+" "+addresses.ParentOf(o).Name)
	}
	slices.Sort(all)
	return all
}

// make creates an object that belongs to no namespace.
func (c *cluster) make(gr kinds.GroupResource, body string) {
	c.t.Helper()
	if _, err := c.Create(c.t.Context(), c.at(gr, ""), []byte(body), metav1.CreateOptions{}); err != nil {
		c.t.Fatalf("create one of %s: %v", gr, err)
	}
}
