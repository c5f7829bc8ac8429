package registry_test

import (
	"iter"
	"slices"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// served is a collector that records, for each change of a definition, whether its resource is
// served when the change becomes visible.
type served struct {
	live func() *kinds.Catalog

	// mu guards seen.
	mu   sync.Mutex
	seen []string
}

// Load implements registry.Collector.
func (*served) Load(kinds.GroupResource, iter.Seq[*wire.Object]) {}

// Forget implements registry.Collector.
func (*served) Forget(kinds.GroupResource) {}

// Defined implements registry.Collector.
func (*served) Defined() {}

// Changed implements registry.Collector.
func (c *served) Changed(gr kinds.GroupResource, _, after *wire.Object) {
	if gr != kinds.Definitions() {
		return
	}
	what := "written"
	if after == nil {
		what = "removed"
	}
	if _, found := c.live().Storage(kinds.GroupResource{Group: "t.example.com", Resource: "foos"}); found {
		what += ", served"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, what)
}

// A client that sees a definition established can use its resource, and one that sees it
// removed can have its names.
func TestADefinitionIsInForceWhenItsChangeIsVisible(t *testing.T) {
	log := openLog(t)
	var s *server
	c := &served{live: func() *kinds.Catalog { return s.live.Load() }}
	s, stop := serveWith(t, log, registry.Config{Store: log, Collectors: []registry.Collector{c}})
	s.create(s.at(crds), definition(""))
	w := s.watch(s.at(crds), nil)
	s.delete(s.at(crds, "", "foos.t.example.com"))
	for e := w.next(); e.Type != kube.Deleted; e = w.next() {
	}
	stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[0] != "written, served" || c.seen[len(c.seen)-1] != "removed" || slices.Contains(c.seen, "written") {
		t.Errorf("seen in this order: %q", c.seen)
	}
}
