package gc

import (
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/wire"
)

// maps returns ConfigMaps, owned by one object or by none.
func maps(b *testing.B, n int, owned bool) []*wire.Object {
	b.Helper()
	owners := ""
	if owned {
		owners = `,"ownerReferences":[{"apiVersion":"v1","blockOwnerDeletion":true,"controller":true,"kind":"ConfigMap",` +
			`"name":"owner","uid":"6f1d2c1e-0000-4000-8000-000000000000"}]`
	}
	all := make([]*wire.Object, n)
	for i := range all {
		o, err := wire.NewObject(fmt.Appendf(nil,
			`{"apiVersion":"v1","data":{"x":"y"},"kind":"ConfigMap","metadata":{"name":"m%d","namespace":"default"%s,`+
				`"uid":"6f1d2c1e-0000-4000-8001-%012d"}}`, i, owners, i), 1, nil)
		if err != nil {
			b.Fatalf("make an object: %v", err)
		}
		all[i] = o
	}
	return all
}

// BenchmarkFollow is what a write costs the publisher: a create of an object without
// owners, one with an owner, and an update that leaves the owners as they are.
func BenchmarkFollow(b *testing.B) {
	gr := kinds.GroupResource{Resource: "configmaps"}
	for name, owned := range map[string]bool{"plain": false, "owned": true} {
		all := maps(b, 10_000, owned)
		for _, update := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/update=%t", name, update), func(b *testing.B) {
				c := New(Config{Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.DiscardHandler)})
				c.graph.begin()
				c.Load(gr, slices.Values(all))
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					o := all[i%len(all)]
					if update {
						c.Changed(gr, o, o)
					} else {
						c.Changed(gr, nil, o)
					}
				}
			})
		}
	}
}

// BenchmarkGraphMemory is the heap that the graph takes for each of 10 000 objects.
func BenchmarkGraphMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for name, owned := range map[string]bool{"plain": false, "owned": true} {
		all := maps(b, 10_000, owned)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := New(Config{Live: kinds.NewLive(builtin.Catalog()), Logger: slog.New(slog.DiscardHandler)})
				c.graph.begin()
				empty := heap()
				c.Load(kinds.GroupResource{Resource: "configmaps"}, slices.Values(all))
				for v := c.graph.take(); v != nil; v = c.graph.take() {
					c.graph.done(v)
				}
				b.ReportMetric((heap()-empty)/float64(len(all)), "B/object")
				runtime.KeepAlive(c)
			}
			runtime.KeepAlive(all)
		})
	}
}
