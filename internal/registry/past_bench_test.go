//go:build unix

package registry_test

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// BenchmarkPast reads the past of -objects of 1.4 KB in a hundred namespaces, each of which was updated ten times: the
// changes of one object, all changes of a namespace, and the first thousand objects, now and as they were before the updates.
// For the figures of docs/performance.md: -objects 100000. mb is by how much memory grew meanwhile.
func BenchmarkPast(b *testing.B) {
	const updates = 10
	log, before := benchHistory(b, *largeFlag, updates**largeFlag)
	s, stop := serveOn(b, log, nil)
	defer stop()
	first, err := kube.ParseResourceVersion(before)
	if err != nil {
		b.Fatalf("parse the resourceVersion: %v", err)
	}
	measure := func(name string, want int, read func() int) {
		b.Run(name, func(b *testing.B) {
			began, highest := collected(), peak()
			for b.Loop() {
				if got := read(); got != want {
					b.Fatalf("%d, want %d", got, want)
				}
			}
			b.ReportMetric(float64(highest()-began)/(1<<20), "mb")
		})
	}
	measure("object", updates+1, func() int {
		return s.changed(b, s.at("configmaps", "ns07", "object-007"), wire.ChangesOptions{Newest: true, Previous: true})
	})
	measure("namespace", updates**largeFlag/benchShards, func() int {
		return s.changed(b, s.at("configmaps", "ns07"), wire.ChangesOptions{Newest: true, After: wire.Moment{RV: first}})
	})
	const objects = 1000
	list := func(o wire.ListOptions) (n int) {
		o.Limit = objects
		list, err := s.List(b.Context(), s.at("configmaps"), o)
		if err != nil {
			b.Fatalf("list: %v", err)
		}
		for _, err := range list.Items {
			if err != nil {
				b.Fatalf("read an item: %v", err)
			}
			n++
		}
		return n
	}
	measure("list-now", objects, func() int { return list(options(nil)) })
	measure("list-before", objects, func() int {
		return list(options(func(o *wire.ListOptions) { o.ResourceVersion, o.Match = fmt.Sprint(first), wire.MatchExact }))
	})
}

// changed counts the changes that all pages have.
func (s *server) changed(b *testing.B, at kinds.Target, o wire.ChangesOptions) (n int) {
	b.Helper()
	o.ListOptions = options(func(l *wire.ListOptions) { l.Limit = 5000 })
	for {
		page, err := s.Changes(b.Context(), at, o)
		if err != nil {
			b.Fatalf("read changes: %v", err)
		}
		n += len(page.Items)
		if page.Next.IsZero() {
			return n
		}
		o.Token = page.Next
	}
}
