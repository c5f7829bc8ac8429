package watchcache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// loaded is a cache of 10 000 objects of about 1 KiB in 10 namespaces.
func loaded(b *testing.B) (*fixture, []*wire.Object) {
	b.Helper()
	var objects []*wire.Object
	for i := range 10_000 {
		app := "web"
		if i%10 == 0 {
			app = "db"
		}
		objects = append(objects, thing{
			namespace: fmt.Sprintf("ns%d", i%10), name: fmt.Sprintf("object-%05d", i), app: app, node: "n1", size: 800,
		}.at(b, 1))
	}
	return newFixture(b, watchcache.Config{}, objects...), objects
}

// BenchmarkAppend appends updates one by one while cursors wait, each of which is
// woken and finds nothing for it.
func BenchmarkAppend(b *testing.B) {
	for _, cursors := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("cursors=%d", cursors), func(b *testing.B) {
			f, objects := loaded(b)
			ctx, cancel := context.WithCancel(b.Context())
			var idle sync.WaitGroup
			for range cursors {
				cursor := f.cursor(loadedAt, appIs("nobody"))
				idle.Go(func() { _, _ = cursor.Next(ctx) })
			}
			rv := kube.ResourceVersion(loadedAt)
			b.ReportAllocs()
			for b.Loop() {
				rv++
				o := objects[int(rv)%len(objects)].WithResourceVersion(rv)
				f.cache.Append(watchcache.NewEntry(rv, o, nil))
				f.clock.Publish(rv)
			}
			b.StopTimer()
			cancel()
			idle.Wait()
		})
	}
}

// BenchmarkCursorFanout delivers to 1000 cursors: one event at a time, each waited
// for, and in bursts that the cursors read as batches.
func BenchmarkCursorFanout(b *testing.B) {
	const cursors = 1000
	for _, burst := range []int{1, 100} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			f, objects := loaded(b)
			ctx, cancel := context.WithCancel(b.Context())
			var readers sync.WaitGroup
			var seen atomic.Int64
			arrived := make(chan int64, 1)
			for range cursors {
				cursor := f.cursor(loadedAt, watchcache.Selection{})
				readers.Go(func() {
					for {
						events, err := cursor.Next(ctx)
						if err != nil {
							return
						}
						if n := seen.Add(int64(len(events))); n%int64(cursors*burst) == 0 {
							arrived <- n
						}
					}
				})
			}
			rv := kube.ResourceVersion(loadedAt)
			b.ReportAllocs()
			for b.Loop() {
				for range burst {
					rv++
					o := objects[int(rv)%len(objects)].WithResourceVersion(rv)
					f.cache.Append(watchcache.NewEntry(rv, o, nil))
					f.clock.Publish(rv)
				}
				<-arrived
			}
			b.ReportMetric(float64(seen.Load())/b.Elapsed().Seconds(), "events/s")
			b.StopTimer()
			cancel()
			readers.Wait()
		})
	}
}

// BenchmarkScan walks 10 000 objects.
func BenchmarkScan(b *testing.B) {
	f, _ := loaded(b)
	for _, test := range []struct {
		name string
		sel  watchcache.Selection
		want int
	}{
		{"everything", watchcache.Selection{}, 10_000},
		{"namespace", watchcache.Selection{Namespace: "ns3"}, 1000},
		{"labels", appIs("db"), 1000},
		{"name", watchcache.Selection{Namespace: "ns3", Name: "object-00003"}, 1},
		{"name in all namespaces", watchcache.Selection{Name: "object-00003"}, 1},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				count := 0
				for range f.cache.Snapshot().Scan("", test.sel) {
					count++
				}
				if count != test.want {
					b.Fatalf("%d objects, want %d", count, test.want)
				}
			}
		})
	}
}

// BenchmarkAt takes back a whole window.
func BenchmarkAt(b *testing.B) {
	f, objects := loaded(b)
	for rv := kube.ResourceVersion(loadedAt + 1); rv <= loadedAt+4096; rv++ {
		f.cache.Append(watchcache.NewEntry(rv, objects[int(rv)%len(objects)].WithResourceVersion(rv), nil))
	}
	f.clock.Publish(loadedAt + 5000)
	gone := f.cache.Stats().Gone
	rv := gone
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.cache.At(b.Context(), rv); err != nil {
			b.Fatalf("read the cache: %v", err)
		}
		rv = gone + (rv-gone+1)%8 // more than are kept
	}
}
