package bench

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// inParallel calls fn(0) … fn(n-1) from the given number of goroutines and
// returns the first error.
func inParallel(workers, n int, fn func(i int) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, workers)
	for range workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := fn(int(i)); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// BenchmarkCreate measures durable creates over HTTP/1.1 with 1, 16 and 256
// clients, each on a connection of its own.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := start(b)
			client := s.client(writers)
			defer client.CloseIdleConnections()
			create := func(prefix string) func(int) error {
				return func(i int) error {
					_, err := do(b.Context(), client, http.MethodPost, s.url+collection, configMap(fmt.Sprintf("%s-%d", prefix, i), ""))
					return err
				}
			}
			if err := inParallel(writers, writers*2, create("warm")); err != nil {
				b.Fatal(err)
			}
			before := s.cpu(b)
			b.ResetTimer()
			began := time.Now()
			if err := inParallel(writers, b.N, create("cm")); err != nil {
				b.Fatal(err)
			}
			took := time.Since(began)
			b.StopTimer()
			b.ReportMetric(float64(b.N)/took.Seconds(), "creates/s")
			b.ReportMetric(float64((s.cpu(b)-before).Microseconds())/float64(b.N), "server-cpu-us/op")
		})
	}
}
