package cache

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/reflector"
	"github.com/gapless-io/gapless/informer/internal/state"
	"github.com/gapless-io/gapless/informer/internal/transition"
	"github.com/gapless-io/gapless/kube"
)

// stream is one namespace stream: all of the collection, or one of several namespaces.
// It is the host of its reflector.
type stream[T handle.Object] struct {
	of        *Cache[T]
	place     int    // in Cache.streams and Cache.positions
	namespace string // "" if it is the only stream
	reflector *reflector.Reflector[T]
}

// AddStream adds a namespace stream; namespace is "" if there is only one. It must be
// called before Run.
func (c *Cache[T]) AddStream(namespace string, source reflector.Source[T], begin transition.State) {
	s := &stream[T]{of: c, place: len(c.streams), namespace: namespace}
	s.reflector = reflector.New(source, s, begin)
	c.streams, c.positions = append(c.streams, s), append(c.positions, "")
	if len(c.streams) == 2 {
		c.merged = state.NewTree[T]()
	}
}

// Reflect keeps all streams current until ctx ends, or until one of them gives up and
// returns an error. A run must be open.
func (c *Cache[T]) Reflect(ctx context.Context) error {
	if len(c.streams) == 1 {
		return c.streams[0].reflector.Run(ctx)
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, s := range c.streams {
		all.Go(func() error { return s.reflector.Run(ctx) })
	}
	return all.Wait()
}

// Status sums up the streams: State is that of a stream that is not watching, if there
// is one, LastContact the oldest, and the counters are sums.
func (c *Cache[T]) Status() reflector.Status {
	sum := reflector.Status{State: transition.Idle}
	for n, s := range c.streams {
		now := s.reflector.Status()
		if n == 0 || sum.State == transition.Watching {
			sum.State = now.State
		}
		if n == 0 || now.LastContact.Before(sum.LastContact) {
			sum.LastContact = now.LastContact
		}
		sum.Undecodable += now.Undecodable
		sum.Lists, sum.Streams, sum.Watches = sum.Lists+now.Lists, sum.Streams+now.Streams, sum.Watches+now.Watches
	}
	return sum
}

// Publish merges the changes of the stream's state into the cache's.
func (s *stream[T]) Publish(changes []state.Change[T], rv string, read reflector.Extent) {
	if len(changes) > 0 {
		s.of.waitRoom()
	}
	s.of.merge(s, changes, rv, read)
}

// Report completes an incident of the stream.
func (s *stream[T]) Report(in incident.Incident) {
	if in.Key.Name == "" {
		in.Key.Namespace = s.namespace
	}
	s.of.hooks.Report(in)
}

// Begin is called before each action of the reflector.
func (s *stream[T]) Begin(does transition.Action) { s.of.hooks.Begin(does) }

// End is called after each action of the reflector.
func (s *stream[T]) End(e reflector.Ending) { s.of.hooks.End(e, s.reflector.Tree().Len()) }

// oldest returns the oldest of several positions; "" if one is not known.
func oldest(positions []string) string {
	least := positions[0]
	for _, rv := range positions[1:] {
		if rv == "" || kube.OlderRV(rv, least) {
			least = rv
		}
	}
	return least
}
