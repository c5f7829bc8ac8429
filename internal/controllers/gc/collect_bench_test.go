//go:build unix

package gc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/controllers/gc"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
)

// cpu is the processor time that the process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatalf("read the CPU time: %v", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkCollect is the collection of 10 000 ConfigMaps without HTTP: how long it takes,
// and the processor time of the whole process for each of them.
func BenchmarkCollect(b *testing.B) {
	const dependents = 10_000
	for _, policy := range []metav1.DeletionPropagation{"Background", "Foreground", "Orphan"} {
		b.Run(string(policy), func(b *testing.B) {
			r, target := serve(b)
			for range b.N {
				owner, err := r.Create(b.Context(), target, []byte(`{"metadata":{"name":"owner"}}`), metav1.CreateOptions{})
				if err != nil {
					b.Fatalf("create: %v", err)
				}
				for i := range dependents {
					body := fmt.Appendf(nil,
						`{"metadata":{"name":"d%d","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"owner",`+
							`"uid":%q,"blockOwnerDeletion":true}]}}`, i, owner.Object.UID())
					if _, err := r.Create(b.Context(), target, body, metav1.CreateOptions{}); err != nil {
						b.Fatalf("create: %v", err)
					}
				}
				at := target
				at.Name = "owner"
				began, used := time.Now(), cpu(b)
				if _, err := r.Delete(b.Context(), at, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
					b.Fatalf("delete: %v", err)
				}
				tick := time.NewTicker(time.Millisecond)
				for !collected(b, r, target, policy) {
					<-tick.C
				}
				tick.Stop()
				b.ReportMetric(time.Since(began).Seconds(), "s/collection")
				b.ReportMetric(float64((cpu(b)-used).Microseconds())/dependents, "cpu-us/object")
				if _, err := r.DeleteCollection(b.Context(), target, metav1.DeleteOptions{}, everything()); err != nil {
					b.Fatalf("delete the collection: %v", err)
				}
			}
		})
	}
}

func everything() wire.ListOptions {
	return wire.ListOptions{Labels: labels.Everything(), Fields: fields.Everything(), ResourceVersion: "0"}
}

// collected reports whether nothing is left to do.
func collected(b *testing.B, r *registry.Registry, target kinds.Target, policy metav1.DeletionPropagation) bool {
	b.Helper()
	if target.Name = "owner"; policy != "Background" {
		_, err := r.Get(b.Context(), target, "0")
		return err != nil
	}
	return r.Stats()["configmaps"].Objects == 0
}

// serve runs a registry in memory with a collector until the benchmark ends.
func serve(b *testing.B) (*registry.Registry, kinds.Target) {
	b.Helper()
	log, err := revlog.Open(b.Context(), revlog.Options{Memory: true})
	if err != nil {
		b.Fatalf("open the log: %v", err)
	}
	live := kinds.NewLive(builtin.Catalog())
	c := gc.New(gc.Config{Live: live, Logger: slog.New(slog.DiscardHandler), Writable: log.Writable})
	r := registry.New(registry.Config{Store: log, Live: live, Collectors: []registry.Collector{c}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 3)
	go func() { ended <- log.Run(context.WithoutCancel(ctx)) }() // ends with Close
	go func() { ended <- r.Run(ctx) }()                          // ends with ctx
	if err := r.WaitReady(b.Context()); err != nil {
		b.Fatalf("wait until it is ready: %v", err)
	}
	go func() { ended <- c.Run(ctx, r) }() // ends with ctx
	b.Cleanup(func() {
		cancel()
		err := errors.Join(<-ended, <-ended)
		if err := errors.Join(err, log.Close(), <-ended); err != nil {
			b.Errorf("close the log and wait for the end: %v", err)
		}
	})
	resource, _ := live.Load().Storage(kinds.GroupResource{Resource: "configmaps"})
	return r, kinds.Target{Resource: resource, Namespace: "default"}
}
