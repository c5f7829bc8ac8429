package revlog_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
)

// BenchmarkCommit creates objects of 1 KiB, each durable when it is counted.
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l := open(b, revlog.Options{Dir: b.TempDir()})
			value := make([]byte, 1024)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := l.Commit(b.Context(), store.Txn{
							Key: fmt.Sprintf("configmaps/default/object-%09d", n), Value: value,
						}); err != nil {
							b.Errorf("commit: %v", err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
		})
	}
}

// filled returns a log on disk with updates of 10 000 keys of 1 KiB.
func filled(b *testing.B, updates int) *revlog.Log {
	b.Helper()
	return filledWith(b, updates, 100)
}

// filledWith returns a log on disk with updates of 100 times so many keys of 1 KiB.
func filledWith(b *testing.B, updates, keys int) *revlog.Log {
	b.Helper()
	const writers = 100
	l := open(b, revlog.Options{Dir: b.TempDir()})
	value := make([]byte, 1024)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			revisions := make([]int64, keys)
			for i := range updates / writers {
				done, err := l.Commit(b.Context(), store.Txn{
					Key: fmt.Sprintf("configmaps/default/object-%03d-%03d", w, i%keys), Value: value,
					ExpectedModRevision: revisions[i%keys],
				})
				if err != nil {
					b.Errorf("commit: %v", err)
					return
				}
				revisions[i%keys] = done.Revision
			}
		})
	}
	wg.Wait()
	return l
}

// BenchmarkReplay reads 100 000 changes with their previous versions.
func BenchmarkReplay(b *testing.B) {
	const changes = 100_000
	l := filled(b, changes)
	b.ResetTimer()
	for b.Loop() {
		feed, err := l.Changes(b.Context(), store.From{Prefix: "configmaps/", UpTo: l.Stats().Revision})
		if err != nil {
			b.Fatalf("ask for changes: %v", err)
		}
		for seen := 0; seen < changes; {
			batch, err := feed.Next(b.Context())
			if err != nil {
				b.Fatalf("read the feed: %v", err)
			}
			seen += len(batch.Changes)
		}
		if err := feed.Close(); err != nil {
			b.Fatalf("close the feed: %v", err)
		}
	}
	b.ReportMetric(float64(changes)*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
}

// BenchmarkList reads 10 000 records at the latest revision.
func BenchmarkList(b *testing.B) {
	l := filled(b, 50_000)
	b.ResetTimer()
	for b.Loop() {
		page, err := l.Read(b.Context(), store.Query{Start: "configmaps/", End: store.PrefixEnd("configmaps/")})
		if err != nil || len(page.Records) != 10_000 {
			b.Fatalf("%d records, %v", len(page.Records), err)
		}
	}
}

// BenchmarkRestart opens a log of 100 000 records.
func BenchmarkRestart(b *testing.B) {
	dir := b.TempDir()
	l := open(b, revlog.Options{Dir: dir})
	value := make([]byte, 1024)
	var wg sync.WaitGroup
	for w := range 100 {
		wg.Go(func() {
			for i := range 1000 {
				if _, err := l.Commit(b.Context(), store.Txn{Key: fmt.Sprintf("pods/%d-%d", w, i), Value: value}); err != nil {
					b.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		b.Fatalf("close: %v", err)
	}
	b.ResetTimer()
	for b.Loop() {
		l, err := revlog.Open(b.Context(), revlog.Options{Dir: dir})
		if err != nil {
			b.Fatalf("open the log: %v", err)
		}
		if err := l.Close(); err != nil {
			b.Fatalf("close: %v", err)
		}
	}
}

// BenchmarkWritesWhileCompacting measures the latency of writes by 16 writers
// before and while a million revisions of 100 000 keys are compacted and their
// segments merged: as fast as they can, which takes all processors, and with a
// pause of 2 ms after each, as writers have that do something else too.
func BenchmarkWritesWhileCompacting(b *testing.B) {
	for _, pause := range []time.Duration{0, 2 * time.Millisecond} {
		b.Run(fmt.Sprintf("pause=%v", pause), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				compactUnderWrites(b, pause)
				b.StartTimer()
			}
		})
	}
}

func compactUnderWrites(b *testing.B, pause time.Duration) {
	b.Helper()
	l := filledWith(b, 1_000_000, 1000)
	quiet := latencies(b, l, pause, time.After(5*time.Second))
	done := make(chan time.Time)
	began := time.Now()
	// It ends with the compaction, which the writers wait for.
	go func() {
		defer close(done)
		if _, err := l.Compact(b.Context(), store.Compaction{UpTo: l.Stats().Revision}); err != nil {
			b.Errorf("compact: %v", err)
		}
	}()
	busy := latencies(b, l, pause, done)
	b.ReportMetric(time.Since(began).Seconds(), "compaction-s")
	p99 := func(all []time.Duration) float64 { return float64(all[len(all)*99/100].Microseconds()) }
	b.ReportMetric(p99(quiet), "quiet-p99-us")
	b.ReportMetric(p99(busy), "busy-p99-us")
	b.ReportMetric(float64(busy[len(busy)-1].Microseconds()), "busy-max-us")
	b.ReportMetric(p99(busy)/p99(quiet), "p99-ratio")
}

// latencies writes with 16 writers until end, and returns how long each write took,
// in order.
func latencies(b *testing.B, l *revlog.Log, pause time.Duration, end <-chan time.Time) []time.Duration {
	b.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var over atomic.Bool
	var wg sync.WaitGroup
	value := make([]byte, 1024)
	from := l.Stats().Revision
	for w := range 16 {
		wg.Go(func() {
			var own []time.Duration
			for i := 0; !over.Load(); i++ {
				began := time.Now()
				if _, err := l.Commit(b.Context(), store.Txn{
					Key: fmt.Sprintf("pods/%d/%d-%d", from, w, i), Value: value,
				}); err != nil {
					b.Errorf("commit: %v", err)
					return
				}
				own = append(own, time.Since(began))
				if pause > 0 {
					<-time.After(pause)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	<-end
	over.Store(true)
	wg.Wait()
	slices.Sort(all)
	return all
}
