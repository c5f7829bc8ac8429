//go:build unix

package registry_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// The history that BenchmarkResumeFar reads: updates of objects of 1.4 KB, each shard of
// which has a namespace and a label of its own.
const (
	benchChanges = 20_000
	benchKeys    = 1000
	benchShards  = 100
)

// BenchmarkResumeFar watches from before all of 20 000 updates, which are behind the window:
// everything, what one watch selects of it, and with 8 watches at once. It reports the processor's
// time per update and watch, which counts the updates that a watch passes over; other work on the
// machine hardly changes it.
func BenchmarkResumeFar(b *testing.B) {
	log, first := benchHistory(b, benchKeys, benchChanges)
	shard, err := labels.Parse("shard=s07")
	if err != nil {
		b.Fatalf("parse the selector: %v", err)
	}
	one := benchChanges / benchShards
	for _, c := range []struct {
		name    string
		place   []string
		sel     labels.Selector
		watches int
		events  int
	}{
		{name: "everything", watches: 1, events: benchChanges},
		{name: "namespace", place: []string{"ns07"}, watches: 1, events: one},
		{name: "object", place: []string{"ns07", "object-007"}, watches: 1, events: benchChanges / benchKeys},
		{name: "name", place: []string{"", "object-007"}, watches: 1, events: benchChanges / benchKeys},
		{name: "label", sel: shard, watches: 1, events: one},
		{name: "everything-8", watches: 8, events: benchChanges},
		{name: "namespace-8", place: []string{"ns07"}, watches: 8, events: one},
		{name: "label-8", sel: shard, watches: 8, events: one},
		{name: "label-64", sel: shard, watches: 64, events: one},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := options(func(o *wire.ListOptions) {
				o.ResourceVersion = first
				if c.sel != nil {
					o.Labels = c.sel
				}
			})
			b.ReportAllocs()
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				s, stop := serveOn(b, log, nil) // a new one has nothing in memory
				at := s.at("configmaps", c.place...)
				began := processorTime(b)
				b.StartTimer()
				var all sync.WaitGroup
				for range c.watches {
					all.Go(func() { s.follow(b, at, o, c.events) })
				}
				all.Wait()
				b.StopTimer()
				used += processorTime(b) - began
				stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(used)/float64(b.N*c.watches*benchChanges), "cpu-ns/change")
		})
	}
}

// processorTime is what this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatalf("read the CPU time: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// follow watches until it has been given a number of events.
func (s *server) follow(b *testing.B, at kinds.Target, o wire.ListOptions, events int) {
	w, err := s.Watch(b.Context(), at, o)
	if err != nil {
		b.Errorf("watch: %v", err)
		return
	}
	defer w.Close()
	for events > 0 {
		batch, err := w.Next(b.Context())
		if err != nil {
			b.Errorf("read the next: %v", err)
			return
		}
		events -= len(batch)
	}
	if events < 0 {
		b.Errorf("%d events too many", -events)
	}
}

// benchHistory returns a log on disk, and the resourceVersion after which its objects were
// updated, each equally often.
func benchHistory(b *testing.B, keys, changes int) (*revlog.Log, string) {
	b.Helper()
	log := openLogWith(b, revlog.Options{Dir: b.TempDir()})
	revisions := make([]int64, keys)
	const writers = 100
	round := func(updates int) {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for n := range updates {
					for i := w; i < keys; i += writers {
						ns := fmt.Sprintf("ns%02d", i%benchShards)
						value := fmt.Sprintf(
							`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-%03d","namespace":%q,"uid":"u-%d",`+
								`"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"bench","shard":"s%02d"}},"data":{"n":"%d","text":"%01200d"}}`,
							i, ns, i, i%benchShards, n, i)
						done, err := log.Commit(context.WithoutCancel(b.Context()), store.Txn{
							Key: fmt.Sprintf("configmaps/%s/object-%03d", ns, i), Value: []byte(value),
							ExpectedModRevision: revisions[i],
						})
						if err != nil {
							b.Errorf("commit to the log: %v", err)
							return
						}
						revisions[i] = done.Revision
					}
				}
			})
		}
		all.Wait()
	}
	round(1)
	first, err := log.Progress(b.Context())
	if err != nil {
		b.Fatalf("progress log: %v", err)
	}
	round(changes / keys)
	return log, kube.ResourceVersion(first).String()
}
