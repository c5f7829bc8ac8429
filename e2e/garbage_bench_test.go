package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// crowd runs n goroutines that share the numbers below limit.
func crowd(n, limit int, do func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < limit; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}

// BenchmarkCollect deletes an owner of 10 000 ConfigMaps, with data on disk, while four
// clients update objects of their own with a pause of 2 ms. It reports how long the
// collection took, and the latency of the updates before and during it.
func BenchmarkCollect(b *testing.B) {
	const dependents, writers = 10_000, 4
	for _, policy := range []string{"Background", "Foreground", "Orphan"} {
		b.Run(policy, func(b *testing.B) {
			l := launch(b, gapless.Config{DataDir: b.TempDir() + "/data"})
			c := l.caller(b, http2)
			for round := range b.N {
				a := c.create("default", fmt.Sprintf("owner%d", round), "1")
				ref := reference(a, true)
				crowd(16, dependents, func(i int) { c.owned("default", fmt.Sprintf("d%d-%d", round, i), "", ref) })
				for i := range writers {
					c.create("kube-system", fmt.Sprintf("w%d-%d", round, i), "1")
				}
				var collecting, over atomic.Bool
				var mu sync.Mutex // guards took
				took := map[bool][]time.Duration{}
				var wg sync.WaitGroup
				for i := range writers {
					wg.Go(func() {
						pause := time.NewTicker(2 * time.Millisecond)
						defer pause.Stop()
						for n := 0; !over.Load(); n++ {
							during, began := collecting.Load(), time.Now()
							c.relabel("kube-system", fmt.Sprintf("w%d-%d", round, i), fmt.Sprint(n))
							mu.Lock()
							took[during] = append(took[during], time.Since(began))
							mu.Unlock()
							<-pause.C
						}
					})
				}
				<-time.After(2 * time.Second)
				collecting.Store(true)
				began := time.Now()
				c.delete(configMaps+"/"+a.text("metadata", "name"), "propagationPolicy="+policy)
				until(b, "all are collected", time.Hour, func() bool {
					if policy == "Orphan" {
						return c.do(http.MethodGet, configMaps+"/"+a.text("metadata", "name"), "").code == http.StatusNotFound
					}
					return c.must(http.StatusOK, http.MethodGet, configMaps+"?limit=1&resourceVersion=0", "").keys() == ""
				})
				b.ReportMetric(time.Since(began).Seconds(), "s/collection")
				over.Store(true)
				wg.Wait()
				for during, name := range map[bool]string{false: "before", true: "during"} {
					slices.Sort(took[during])
					n := len(took[during])
					b.ReportMetric(float64(took[during][n/2].Microseconds()), "us-p50-"+name)
					b.ReportMetric(float64(took[during][n*99/100].Microseconds()), "us-p99-"+name)
				}
				if policy == "Orphan" {
					c.must(http.StatusOK, http.MethodDelete, configMaps, "")
				}
			}
		})
	}
}

// BenchmarkCreateWithCollector creates ConfigMaps by 16 clients: with and without an owner,
// with and without the collector.
func BenchmarkCreateWithCollector(b *testing.B) {
	for _, controllers := range []string{"*", "*,-garbagecollector"} {
		for _, owned := range []bool{false, true} {
			b.Run(fmt.Sprintf("controllers=%s/owned=%t", controllers, owned), func(b *testing.B) {
				l := launch(b, gapless.Config{Controllers: strings.Split(controllers, ",")})
				c := l.caller(b, http2)
				ref := ""
				if owned {
					ref = reference(c.create("default", "owner", "1"), true)
				}
				b.ResetTimer()
				crowd(16, b.N, func(i int) { c.owned("default", fmt.Sprintf("d%d", i), "", ref) })
			})
		}
	}
}
