package processtest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/gapless-io/gapless/gaplesstest/processtest"
)

// ending is a benchmark whose cleanups run after each round.
type ending struct {
	*testing.B

	cleanups []func()
}

func (e *ending) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *ending) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

// BenchmarkNew measures a server from New until it is ready, and its end; ready-ms is the part
// until it is ready. The program is built before.
func BenchmarkNew(b *testing.B) {
	first := &ending{B: b}
	processtest.New(first)
	first.end()
	var ready time.Duration
	for b.Loop() {
		once := &ending{B: b}
		began := time.Now()
		processtest.New(once)
		ready += time.Since(began)
		once.end()
	}
	b.ReportMetric(float64(ready.Microseconds())/float64(b.N)/1000, "ready-ms")
}

// BenchmarkCrash measures a crash until the server is ready again.
func BenchmarkCrash(b *testing.B) {
	s := processtest.New(b)
	for b.Loop() {
		s.Crash(b)
	}
}

// BenchmarkRestart measures a restart in order.
func BenchmarkRestart(b *testing.B) {
	s := processtest.New(b)
	for b.Loop() {
		s.Restart(b)
	}
}
