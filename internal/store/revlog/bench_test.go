package revlog_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

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
						if _, err := l.Commit(b.Context(), store.Txn{Key: fmt.Sprintf("configmaps/default/object-%09d", n), Value: value}); err != nil {
							b.Error(err)
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
	const writers, keys = 100, 100
	l := open(b, revlog.Options{Dir: b.TempDir()})
	value := make([]byte, 1024)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var revisions [keys]int64
			for i := range updates / writers {
				done, err := l.Commit(b.Context(), store.Txn{
					Key: fmt.Sprintf("configmaps/default/object-%03d-%03d", w, i%keys), Value: value, ExpectedModRevision: revisions[i%keys],
				})
				if err != nil {
					b.Error(err)
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
			b.Fatal(err)
		}
		for seen := 0; seen < changes; {
			batch, err := feed.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			seen += len(batch.Changes)
		}
		if err := feed.Close(); err != nil {
			b.Fatal(err)
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
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	for b.Loop() {
		l, err := revlog.Open(b.Context(), revlog.Options{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
