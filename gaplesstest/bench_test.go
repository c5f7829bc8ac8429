package gaplesstest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/gaplesstest"
)

// ending is a benchmark whose cleanups run after each round.
type ending struct {
	*testing.B

	cleanups []func()
}

func (e *ending) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *ending) end() {
	for _, f := range slices.Backward(e.cleanups) {
		f()
	}
}

// BenchmarkNew measures a server from New until it is ready, and its end.
func BenchmarkNew(b *testing.B) {
	for _, variant := range []struct {
		name string
		opts []gaplesstest.Option
	}{{"port", nil}, {"memory", []gaplesstest.Option{gaplesstest.WithoutPort()}}} {
		b.Run(variant.name, func(b *testing.B) {
			for b.Loop() {
				once := &ending{B: b}
				gaplesstest.New(once, variant.opts...)
				once.end()
			}
		})
	}
}

// BenchmarkReset measures Reset after 1000 objects were created.
func BenchmarkReset(b *testing.B) {
	s := gaplesstest.New(b)
	objects := make([]string, 1000)
	for i := range objects {
		objects[i] = fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: a%d, namespace: default}, data: {a: b}}", i)
	}
	all := strings.Join(objects, "\n---\n")
	for b.Loop() {
		b.StopTimer()
		s.Apply(b, all)
		b.StartTimer()
		s.Reset(b)
	}
}
