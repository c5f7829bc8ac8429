package bootstrap_test

import (
	"fmt"
	"testing"
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
