package registry_test

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

// largeFlag is for figures: go test -run '^$' -bench Large -objects 200000.
var largeFlag = flag.Int("objects", 20_000, "how many objects of 1 KiB the benchmarks of large resources have")

// fill puts n ConfigMaps of 1 KiB into an empty log.
func fill(tb testing.TB, log *revlog.Log, n int) {
	tb.Helper()
	const writers = 256
	payload := strings.Repeat("0123456789abcdef", 48)
	turns := make(chan int)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for i := range turns {
				value := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%06d","namespace":"default",`+
					`"uid":"00000000-0000-4000-8000-%012d","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"app":"a%d"}},"data":{"payload":%q}}`,
					i, i, i%100, payload)
				if _, err := log.Commit(tb.Context(), store.Txn{
					Key: fmt.Sprintf("configmaps/default/c%06d", i), Value: []byte(value),
				}); err != nil {
					tb.Errorf("fill the log: %v", err)
				}
			}
		})
	}
	for i := range n {
		turns <- i
	}
	close(turns)
	wg.Wait()
}

// run opens a log in a directory and runs it until stop.
func run(tb testing.TB, dir string) (log *revlog.Log, stop func()) {
	tb.Helper()
	log, err := revlog.Open(tb.Context(), revlog.Options{Dir: dir})
	if err != nil {
		tb.Fatalf("open the log: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- log.Run(context.WithoutCancel(tb.Context())) }() // ends with Close
	return log, func() {
		if err := log.Close(); err != nil {
			tb.Errorf("close the log: %v", err)
		}
		if err := <-ended; err != nil {
			tb.Errorf("run the log: %v", err)
		}
	}
}

// resident is the memory that the process has of the system, nearly: what the Go
// runtime has mapped and not given back.
func resident() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// processor is how much processor time the process has used.
func processor(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatalf("read the CPU time: %v", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// peak watches resident until it is called.
func peak() (end func() int64) {
	stop, highest := make(chan struct{}), make(chan int64)
	go func() { // ends with end
		top := resident()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				top = max(top, resident())
			case <-stop:
				highest <- top
				return
			}
		}
	}()
	return func() int64 { close(stop); return <-highest }
}

func collected() int64 {
	debug.FreeOSMemory()
	return resident()
}

// BenchmarkLargeRestart measures how long a start takes, its parts, and how much
// more memory it needs than afterwards, when idle.
func BenchmarkLargeRestart(b *testing.B) {
	dir := b.TempDir()
	log, stop := run(b, dir)
	fill(b, log, *largeFlag)
	stop()
	var open, load, spent time.Duration
	var top, rest int64
	for b.Loop() {
		collected()
		highest := peak()
		began := time.Now()
		log, stopLog := run(b, dir)
		open += time.Since(began)
		before := processor(b)
		began = time.Now()
		_, stopServer := serveOn(b, log, nil)
		load += time.Since(began)
		spent += processor(b) - before
		top += highest()
		rest += collected()
		stopServer()
		stopLog()
	}
	n := int64(b.N)
	b.ReportMetric(float64(open.Milliseconds()/n), "open-ms")
	b.ReportMetric(float64(load.Milliseconds()/n), "load-ms")
	b.ReportMetric(float64(spent.Milliseconds()/n), "load-cpu-ms")
	b.ReportMetric(float64(top/n>>20), "peak-MiB")
	b.ReportMetric(float64(rest/n>>20), "idle-MiB")
}

// BenchmarkLargeExactPages measures exact lists of one object behind the memory
// window, 16 at once and each at another revision.
func BenchmarkLargeExactPages(b *testing.B) {
	benchmarkExact(b, 16, func(o *wire.ListOptions) { o.Limit = 1 })
}

// BenchmarkLargeExactLists measures exact lists of everything there.
func BenchmarkLargeExactLists(b *testing.B) {
	benchmarkExact(b, 4, func(*wire.ListOptions) {})
}

func benchmarkExact(b *testing.B, readers int, set func(*wire.ListOptions)) {
	dir := b.TempDir()
	log, stopLog := run(b, dir)
	fill(b, log, *largeFlag)
	s := &server{t: b, log: log, live: kinds.NewLive(builtin.Catalog())}
	s.Registry = registry.New(registry.Config{Store: log, Live: s.live})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }() // ends with ctx
	defer func() {
		if cancel(); <-ended != nil {
			b.Error("the registry ended with an error")
		}
		stopLog()
	}()
	if err := s.WaitReady(b.Context()); err != nil {
		b.Fatalf("wait until it is ready: %v", err)
	}
	cms := s.at("configmaps", "default")
	at := int64(s.list(cms, func(o *wire.ListOptions) { o.Limit = 1 }).ResourceVersion) - int64(readers)
	for i := range 5000 { // more than the window holds
		s.merge(s.at("configmaps", "default", fmt.Sprintf("c%06d", i)), `{"data":{"changed":"yes"}}`)
	}
	before := collected()
	highest := peak()
	var slowest time.Duration
	for b.Loop() {
		took := make([]time.Duration, readers)
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				began := time.Now()
				list := s.list(cms, func(o *wire.ListOptions) {
					set(o)
					o.ResourceVersion, o.Match = fmt.Sprint(at+int64(i)), wire.MatchExact
				})
				for _, err := range list.Items { // as it is written to a client: none is held
					if err != nil {
						b.Error(err)
					}
				}
				took[i] = time.Since(began)
			})
		}
		wg.Wait()
		for _, d := range took {
			slowest = max(slowest, d)
		}
	}
	top := highest()
	b.ReportMetric(float64(slowest.Microseconds())/1000, "slowest-ms")
	b.ReportMetric(float64(before>>20), "idle-MiB")
	b.ReportMetric(float64((top-before)>>20), "more-MiB")
}
