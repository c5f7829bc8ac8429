package mirror_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/mirror"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	benchObjects = 100_000
	benchChanges = 180_000
	benchBatch   = 256
)

// body returns an object of 2 KB.
func body(r *rand.Rand, n int) []byte {
	data := make([]byte, 1900)
	for i := range data {
		data[i] = "abcdefghijklmnopqrstuvwxyz012345"[r.IntN(32)]
	}
	return fmt.Appendf(nil, `{"metadata":{"name":"object-%06d","namespace":"default"},"data":%q}`, n, data)
}

// running opens a mirror that runs until the returned function is called.
func running(b *testing.B, o mirror.Options) (m *mirror.Mirror, end func()) {
	b.Helper()
	m, err := mirror.Open(b.Context(), o)
	if err != nil {
		b.Fatalf("open the mirror: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }() // it ends with the returned function
	return m, func() {
		stop()
		if err := errors.Join(<-ended, m.Close()); err != nil {
			b.Errorf("wait for the end and close: %v", err)
		}
	}
}

// fill records objects and changes of 2 KB.
func fill(b *testing.B, c *mirror.Collection) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	key := func(n int) wire.Key { return wire.Key{Namespace: "default", Name: fmt.Sprintf("object-%06d", n)} }
	objects := make([]mirror.Change, benchObjects)
	for i := range objects {
		objects[i] = mirror.Change{Key: key(i), RV: kube.ResourceVersion(i + 1), Object: body(r, i)}
	}
	if _, err := c.Replace(b.Context(), nil, objects, benchObjects); err != nil {
		b.Fatalf("replace: %v", err)
	}
	rv := kube.ResourceVersion(benchObjects)
	for range benchChanges / benchBatch {
		changes := make([]mirror.Change, benchBatch)
		for i := range changes {
			rv++
			n := r.IntN(benchObjects)
			changes[i] = mirror.Change{Key: key(n), RV: rv, Object: body(r, n)}
		}
		if _, err := c.Append(b.Context(), changes, rv); err != nil {
			b.Fatalf("append: %v", err)
		}
	}
}

// BenchmarkOpen opens a mirror of 100 000 objects with 180 000 further changes, all of 2 KB: the
// log, and the collection in it. compacted is with the older half of the history removed.
func BenchmarkOpen(b *testing.B) {
	for _, compacted := range []bool{false, true} {
		b.Run(fmt.Sprintf("compacted=%t", compacted), func(b *testing.B) {
			dir := b.TempDir()
			m, end := running(b, mirror.Options{Dir: dir})
			c, err := m.Collection(b.Context(), "pods.v1")
			if err != nil {
				b.Fatalf("open the collection: %v", err)
			}
			fill(b, c)
			if compacted {
				if _, err := m.Store().Compact(b.Context(), store.Compaction{
					UpTo: m.Stats().Revision - benchChanges/2,
				}); err != nil {
					b.Fatalf("compact the store: %v", err)
				}
			}
			end()
			var collection time.Duration
			b.ResetTimer()
			for b.Loop() {
				m, err := mirror.Open(b.Context(), mirror.Options{Dir: dir})
				if err != nil {
					b.Fatalf("open the mirror: %v", err)
				}
				began := time.Now()
				c, err := m.Collection(b.Context(), "pods.v1")
				if err != nil {
					b.Fatalf("open the collection: %v", err)
				}
				collection += time.Since(began)
				if want := kube.ResourceVersion(benchObjects + benchChanges/benchBatch*benchBatch); c.Reached() != want {
					b.Errorf("reached %d, want %d", c.Reached(), want)
				}
				if err := m.Close(); err != nil {
					b.Fatalf("close: %v", err)
				}
			}
			b.ReportMetric(collection.Seconds()*1000/float64(b.N), "collection-ms/op")
		})
	}
}

// BenchmarkReplace records the first state: 100 000 objects of 2 KB.
func BenchmarkReplace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	objects := make([]mirror.Change, benchObjects)
	for i := range objects {
		objects[i] = mirror.Change{
			Key: wire.Key{Name: fmt.Sprint("object-", i)}, RV: kube.ResourceVersion(i + 1), Object: body(r, i),
		}
	}
	for b.Loop() {
		b.StopTimer()
		m, end := running(b, mirror.Options{Dir: b.TempDir()})
		c, err := m.Collection(b.Context(), "pods.v1")
		if err != nil {
			b.Fatalf("open the collection: %v", err)
		}
		b.StartTimer()
		if _, err := c.Replace(b.Context(), nil, objects, benchObjects); err != nil {
			b.Fatalf("replace: %v", err)
		}
		b.StopTimer()
		end()
		b.StartTimer()
	}
}

// BenchmarkAppend records 256 changes of 2 KB at once, synced.
func BenchmarkAppend(b *testing.B) {
	m, end := running(b, mirror.Options{Dir: b.TempDir(), HistoryBytes: 256 << 20})
	defer end()
	c, err := m.Collection(b.Context(), "pods.v1")
	if err != nil {
		b.Fatalf("open the collection: %v", err)
	}
	r := rand.New(rand.NewPCG(1, 1))
	changes := make([]mirror.Change, benchBatch)
	for i := range changes {
		changes[i] = mirror.Change{Key: wire.Key{Name: fmt.Sprint("object-", i)}, Object: body(r, i)}
	}
	rv := kube.ResourceVersion(0)
	for b.Loop() {
		for i := range changes {
			rv++
			changes[i].RV = rv
		}
		if _, err := c.Append(b.Context(), changes, rv); err != nil {
			b.Fatalf("append: %v", err)
		}
	}
	b.ReportMetric(float64(benchBatch)*float64(b.N)/b.Elapsed().Seconds(), "changes/s")
}

// BenchmarkMemory measures what is held in memory for each change that is kept: by the mirror,
// and by all together with the log's index. Objects have a few bytes.
func BenchmarkMemory(b *testing.B) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	dir := b.TempDir()
	m, end := running(b, mirror.Options{Dir: dir})
	c, err := m.Collection(b.Context(), "pods.v1")
	if err != nil {
		b.Fatalf("open the collection: %v", err)
	}
	rv := kube.ResourceVersion(0)
	for range benchChanges / benchBatch {
		changes := make([]mirror.Change, benchBatch)
		for i := range changes {
			rv++
			changes[i] = mirror.Change{Key: wire.Key{Name: fmt.Sprint("object-", i)}, RV: rv, Object: []byte("{}")}
		}
		if _, err := c.Append(b.Context(), changes, rv); err != nil {
			b.Fatalf("append: %v", err)
		}
	}
	end()
	for b.Loop() {
		before := heap()
		m, err := mirror.Open(b.Context(), mirror.Options{Dir: dir})
		if err != nil {
			b.Fatalf("open the mirror: %v", err)
		}
		log := heap()
		c, err := m.Collection(b.Context(), "pods.v1")
		if err != nil {
			b.Fatalf("open the collection: %v", err)
		}
		all := heap()
		b.ReportMetric((all-log)/float64(rv), "mirror-B/change")
		b.ReportMetric((log-before)/float64(rv), "log-B/change")
		runtime.KeepAlive(c)
		if err := m.Close(); err != nil {
			b.Fatalf("close: %v", err)
		}
	}
}
