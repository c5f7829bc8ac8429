//go:build unix

package gapless_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless"
)

// BenchmarkCreate creates objects over HTTPS at 16 clients, with and without the plugins that are on by default, and reports the
// processor time of server and client together.
func BenchmarkCreate(b *testing.B) {
	for kind, of := range map[string]struct{ path, body string }{
		"pods": {
			"/api/v1/namespaces/default/pods",
			`{"metadata":{"name":"p-%d","labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i","env":` +
				`[{"name":"A","value":"b"}],"resources":{"requests":{"cpu":"100m","memory":"64Mi"}}}]}}`,
		},
		"configmaps": {"/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"m-%d"},"data":{"a":"b"}}`},
	} {
		for plugins, off := range map[string][]string{"none": gapless.DefaultAdmissionPlugins(), "default": nil} {
			b.Run(kind+"/plugins="+plugins, func(b *testing.B) {
				s := launch(b, gapless.Config{
					Memory: true, DisableAdmissionPlugins: off, Bootstrap: gapless.BootstrapCluster, // pods need accounts
				})
				var n atomic.Int64
				b.SetParallelism(16 / runtime.GOMAXPROCS(0))
				b.ResetTimer()
				before := processorTime(b)
				b.RunParallel(func(clients *testing.PB) {
					client := s.web(b)
					for clients.Next() {
						if code, body := s.exchange(b, client, "POST "+of.path, fmt.Sprintf(of.body, n.Add(1))); code != 201 {
							b.Errorf("create: %d %s", code, body)
						}
					}
				})
				b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(n.Load()), "cpu-us/op")
			})
		}
	}
}

// processorTime is that of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatalf("get the usage: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
