package expiry

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/kube"
)

// BenchmarkLook looks through 100 000 Events of which none has expired.
func BenchmarkLook(b *testing.B) {
	const n = 100_000
	log, err := revlog.Open(b.Context(), revlog.Options{Memory: true})
	if err != nil {
		b.Fatalf("open the log: %v", err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx) }() // ends with end
	b.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			b.Errorf("end the log: %v", err)
		}
		if err := log.Close(); err != nil {
			b.Errorf("close the log: %v", err)
		}
	})
	var writers errgroup.Group
	writers.SetLimit(256)
	for i := range n {
		writers.Go(func() error {
			key := fmt.Sprintf("events/default/pod-%d.1834ef0c5b1c2f3a", i)
			_, err := log.Commit(ctx, store.Txn{Key: key, Value: make([]byte, 500)})
			return err
		})
	}
	if err := writers.Wait(); err != nil {
		b.Fatalf("write the Events: %v", err)
	}
	e := New(Config{
		Store: log, TTL: time.Hour, Logger: slog.New(slog.DiscardHandler),
		WaitPublished: func(context.Context, kube.ResourceVersion) error { return nil },
	})
	if err := e.mark(ctx); err != nil {
		b.Fatalf("mark the start: %v", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.look(ctx); err != nil {
			b.Fatalf("look: %v", err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/event")
}
