package informer_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer"
)

// small is a server of n small pods, 100 on a node, whose watch is what is given.
func small(n int, watch io.Reader) informer.Backend {
	var b []byte
	b = append(b, `{"kind":"PodList","metadata":{"resourceVersion":"100"},"items":[`...)
	for k := range n {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(b, smallPod(k, 50)...)
	}
	return canned(append(b, `]}`...), watch)
}

func smallPod(n, rv int) string {
	return fmt.Sprintf(
		`{"metadata":{"name":"web-7c5ddbdf54-%06d","namespace":"prod-%d","uid":"u%d","resourceVersion":"%d"},`+
			`"spec":{"nodeName":"node-%d"}}`, n, n%20, n, rv, n/100)
}

type slimPod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

func byNode(i *informer.Informer[*slimPod]) *informer.Index[*slimPod, string] {
	return informer.NewIndex1(i, "node", func(p *slimPod) string { return p.Spec.NodeName })
}

// filled is a running informer of n small pods.
func filled(b *testing.B, n int, watch io.Reader) (i *informer.Informer[*slimPod], stop func()) {
	b.Helper()
	i = informer.New(informer.From("pods", small(n, watch), informer.JSON[*slimPod]()), informer.NoStreamingLists())
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		b.Fatalf("wait until it is synced: %v", err)
	}
	return i, func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("wait for the end: %v", err)
		}
	}
}

// BenchmarkIndexBuild adds an index to a cache of 100 000 objects. Retained is what
// it holds then, besides the objects.
func BenchmarkIndexBuild(b *testing.B) {
	const n = 100_000
	i, stop := filled(b, n, nil)
	stop()
	for name, add := range map[string]func() any{
		"100 per value": func() any { return byNode(i) },
		"unique": func() any {
			return informer.NewIndex1(i, "uid", func(p *slimPod) string { return string(p.UID) })
		},
		"one value": func() any { return informer.NewIndex1(i, "all", func(*slimPod) bool { return true }) },
	} {
		b.Run(name, func(b *testing.B) {
			var held uint64
			var all []any
			for b.Loop() {
				b.StopTimer()
				before := heap()
				b.StartTimer()
				all = append(all, add())
				b.StopTimer()
				held = heap() - before
				b.StartTimer()
			}
			runtime.KeepAlive(all)
			b.ReportMetric(float64(held)/n, "retained-B/object")
		})
	}
}

// BenchmarkIndexEvents is one event of 100 000 objects until it is in the cache,
// alone in its batch, without and with an index.
func BenchmarkIndexEvents(b *testing.B) {
	const n = 100_000
	for name, indices := range map[string]int{"no index": 0, "1 index": 1, "4 indices": 4} {
		b.Run(name, func(b *testing.B) {
			in, out := io.Pipe()
			i, stop := filled(b, n, in)
			for range indices {
				byNode(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			rv := 1000
			for b.Loop() {
				rv++
				line := "{\"type\":\"MODIFIED\",\"object\":" + smallPod(rv*7919%n, rv) + "}\n"
				if _, err := io.WriteString(out, line); err != nil {
					b.Fatalf("write: %v", err)
				}
				if err := i.WaitRevision(b.Context(), fmt.Sprint(rv)); err != nil {
					b.Fatalf("wait for the revision: %v", err)
				}
			}
			b.StopTimer()
			stop()
			if err := out.Close(); err != nil {
				b.Errorf("close the file: %v", err)
			}
		})
	}
}

// BenchmarkDiff compares two states of 100 000 objects.
func BenchmarkDiff(b *testing.B) {
	const n = 100_000
	for _, changes := range []int{0, 1, 100} {
		b.Run(fmt.Sprint(changes, " changes"), func(b *testing.B) {
			in, out := io.Pipe()
			i, stop := filled(b, n, in)
			older := i.Snapshot()
			for k := range changes {
				line := "{\"type\":\"MODIFIED\",\"object\":" + smallPod(k*7919%n, 1000+k) + "}\n"
				if _, err := io.WriteString(out, line); err != nil {
					b.Fatalf("write: %v", err)
				}
				if err := i.WaitRevision(b.Context(), fmt.Sprint(1000+k)); err != nil {
					b.Fatalf("wait for the revision: %v", err)
				}
			}
			newer := i.Snapshot()
			b.ReportAllocs()
			b.ResetTimer()
			for b.Loop() {
				seen := 0
				for range newer.Diff(older) {
					seen++
				}
				if seen != changes {
					b.Fatalf("%d differences", seen)
				}
			}
			b.StopTimer()
			stop()
			if err := out.Close(); err != nil {
				b.Errorf("close the file: %v", err)
			}
		})
	}
}

// BenchmarkIndexGet reads the 100 objects of one value out of 100 000.
func BenchmarkIndexGet(b *testing.B) {
	i, stop := filled(b, 100_000, nil)
	defer stop()
	x := byNode(i)
	b.ReportAllocs()
	for b.Loop() {
		seen := 0
		for range x.Get("node-77") {
			seen++
		}
		if seen != 100 || x.Len("node-77") != 100 {
			b.Fatal(seen)
		}
	}
}
