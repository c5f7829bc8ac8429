package conformance

import (
	"flag"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// assets are other programs to start, for a comparison.
var assets = flag.String("assets", "", "directory with kube-apiserver and etcd for BenchmarkEnvironment (default gapless)")

// BenchmarkEnvironment starts and stops what package envtest gives a suite. It reports medians.
func BenchmarkEnvironment(b *testing.B) {
	dir := *assets
	if dir == "" {
		dir = installed(b, b.TempDir(), "1.37.2")
	}
	var starts, stops []time.Duration
	for b.Loop() {
		e := envtest.Environment{BinaryAssetsDirectory: dir}
		begin := time.Now()
		if _, err := e.Start(); err != nil {
			b.Fatalf("start: %v", err)
		}
		started := time.Now()
		if err := e.Stop(); err != nil {
			b.Fatalf("stop: %v", err)
		}
		starts, stops = append(starts, started.Sub(begin)), append(stops, time.Since(started))
	}
	slices.Sort(starts)
	slices.Sort(stops)
	b.ReportMetric(float64(starts[len(starts)/2].Milliseconds()), "start-ms")
	b.ReportMetric(float64(stops[len(stops)/2].Milliseconds()), "stop-ms")
}
