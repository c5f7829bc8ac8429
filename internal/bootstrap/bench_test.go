package bootstrap_test

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/internal/bootstrap"
)

// BenchmarkCreateNamespace is what a client waits for: what is made in the namespace
// is made beside it.
func BenchmarkCreateNamespace(b *testing.B) {
	for name, ca := range map[string][]byte{"server": nil, "cluster": ca()} {
		b.Run(name, func(b *testing.B) {
			c := keep(b, openLog(b), here, ca)
			for i := range b.N {
				c.create(c.at("", "namespaces"), fmt.Sprintf(`{"metadata":{"name":"n%d"}}`, i))
			}
			b.StopTimer()
			if ca != nil {
				c.eventually(c.at("", "serviceaccounts", fmt.Sprintf("n%d", b.N-1), "default"), "the last account", there)
			}
		})
	}
}

// BenchmarkFirstStart is a registry that starts, and what a server makes before it is ready, with the objects of flow
// control and without.
func BenchmarkFirstStart(b *testing.B) {
	for name, flows := range map[string]bootstrap.Flows{"all": bootstrap.FlowsKept, "without flow control": bootstrap.FlowsLeft} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				c := keepBy(b, openLog(b), func(c *cluster) bootstrap.Config { return bootstrap.Config{Verbs: c, Flows: flows} })
				c.stop()
			}
		})
	}
}
