package pluginstest

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster is a plugins.Cluster whose objects a test writes.
type Cluster struct {
	// Unknown is what UnknownOf returns.
	Unknown error

	objects map[kinds.GroupResource]map[wire.Key]*wire.Object
}

// Put writes objects of a resource, in YAML.
func (c *Cluster) Put(t testing.TB, gr kinds.GroupResource, objects ...string) {
	t.Helper()
	if c.objects == nil {
		c.objects = map[kinds.GroupResource]map[wire.Key]*wire.Object{}
	}
	if c.objects[gr] == nil {
		c.objects[gr] = map[wire.Key]*wire.Object{}
	}
	for _, text := range objects {
		o := Object(t, text)
		c.objects[gr][o.Key()] = o
	}
}

// Find implements plugins.Cluster.
func (c *Cluster) Find(gr kinds.GroupResource, key wire.Key) *wire.Object { return c.objects[gr][key] }

// UnknownOf implements plugins.Cluster.
func (c *Cluster) UnknownOf(kinds.GroupResource, string, string) error { return c.Unknown }
