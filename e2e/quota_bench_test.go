package e2e_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// BenchmarkCreatePodsInAQuota creates pods in a namespace without a quota, with one, and with one for something else, by
// one writer and by 64. Of 64 writers one writes the quota for those that wait.
func BenchmarkCreatePodsInAQuota(b *testing.B) {
	for _, of := range []struct{ name, hard string }{
		{"none", ""}, {"pods", `{"pods":"1000000","requests.cpu":"1000k"}`}, {"secrets", `{"secrets":"1"}`},
	} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("quota=%s/writers=%d", of.name, writers), func(b *testing.B) {
				c := launch(b, gapless.Config{DataDir: b.TempDir()}).caller(b, http2)
				if of.hard != "" {
					c.must(http.StatusCreated, http.MethodPost, resourceQuotas, quotaOf("q", of.hard))
					until(b, "the quota is counted", time.Minute, func() bool { return listOf(c, "q", "used") != "" })
				}
				var n atomic.Int64
				b.SetParallelism(writers)
				b.ResetTimer()
				create := func() {
					c.must(http.StatusCreated, http.MethodPost, ofPods, podOf(fmt.Sprintf("p-%d", n.Add(1)), "100m"))
				}
				if writers == 1 {
					for range b.N {
						create()
					}
					return
				}
				b.RunParallel(func(p *testing.PB) {
					for p.Next() {
						create()
					}
				})
			})
		}
	}
}
