package informer

import (
	"slices"

	"github.com/gapless-io/gapless/kube"
)

// Seed makes what reflectors leave to chance the same each time.
func Seed(seed uint64) Option {
	return func(o *options) {
		o.seed = func() uint64 {
			seed++
			return seed
		}
	}
}

// Lending declares that the bytes of the source's backends are valid only until the next call.
func (s Source[T]) Lending() Source[T] {
	s.lends = true
	return s
}

// Sharded takes one of count shards.
func (s Source[T]) Sharded(index, count int) Source[T] {
	s.shard, s.err = kube.ShardOf(index, count)
	return s
}

// Several makes a source of several namespaces, each with a backend of its own.
func (s Source[T]) Several(backends map[string]Backend) Source[T] {
	s.streams = nil
	for namespace, backend := range backends {
		s.streams = append(s.streams, collection{namespace: namespace, backend: plain(backend)})
	}
	slices.SortFunc(s.streams, func(a, b collection) int { return len(a.namespace) - len(b.namespace) })
	return s
}
