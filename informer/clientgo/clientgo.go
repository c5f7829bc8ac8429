// Package clientgo puts the informers of this module where client-go's are
// expected: in generated factories, under generated listers, in controller-runtime.
//
// A replacement implements cache.SharedIndexInformer of client-go 0.33 to 0.37 with package
// informer; [New], [With] and [Over] return one. It reads from a ListerWatcher or an
// [informer.Source]. An [Option] changes its behavior.
//
//	factory.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
//		return clientgo.New(podsOf(c), &corev1.Pod{}, resync, byNamespace)
//	})
//	manager.Options{Cache: cache.Options{NewInformer: clientgo.New}} // controller-runtime
//
// # What is as in client-go
//
//   - Each handler has one goroutine that calls it in sequence, first for every object
//     in the store (isInInitialList).
//   - When a handler is called for an event, the store has that state or a newer one.
//   - A deletion that the watch missed is delivered as cache.DeletedFinalStateUnknown,
//     by value.
//   - Handlers and indexers can be added before and during Run, not after it. Run can be
//     called once.
//   - The store is client-go's own. Tests that write into it can read what they wrote.
//
// # What differs on purpose
//
// MIGRATING-from-client-go.md lists the differences, and TestDifferences checks the list:
//
//   - A re-list causes no calls for unchanged objects (see [RelistUpdates]).
//   - Changes of a key that is waiting in a handler's queue are merged (see [Handlers]).
//   - When an object was replaced by another of the same name, the handler gets a
//     deletion and an addition.
//   - A panic in a handler or an index function does not stop the program.
//   - The watch error handler is also called for a 410.
package clientgo

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer"
)

// Constructor returns a new informer. It is the type of NewInformer in
// controller-runtime's cache.Options and of cache.NewSharedIndexInformer.
type Constructor = func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration,
	indexers cache.Indexers) cache.SharedIndexInformer

// New returns an informer for the objects that lw lists and watches; it is a
// [Constructor]. Events with objects of another type than example are dropped, unless
// example is nil. resync is the resync period of handlers that do not set their own; 0
// means none. indexers may be nil. The informer sends no request before Run.
func New(lw cache.ListerWatcher, example runtime.Object, resync time.Duration,
	indexers cache.Indexers,
) cache.SharedIndexInformer {
	return With()(lw, example, resync, indexers)
}

// With returns a Constructor like [New] that applies options.
func With(opts ...Option) Constructor {
	return func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration,
		indexers cache.Indexers,
	) cache.SharedIndexInformer {
		s := newSettings(opts)
		s.name = fmt.Sprintf("%T", example)
		if withoutStreamingLists(lw) || !features.FeatureGates().Enabled(features.WatchListClient) {
			s.informer = append(s.informer, informer.NoStreamingLists())
		}
		// client-go never sends a ListerWatcher the requests of a comparison, and many cannot
		// answer them.
		s.informer = append(s.informer, informer.NoComparison())
		b := newBackend(lw, example)
		i := newSharedInformer(informer.From(s.name, b, b.decode), form[metav1.Object]{in: hold, out: held}, s,
			indexersWith{resync, indexers})
		i.calls = &b.calls
		return i
	}
}

// withoutStreamingLists reports whether a ListerWatcher says that it has none, as those of
// fake clients do. It is client-go's util/watchlist DoesClientNotSupportWatchListSemantics,
// which 0.34 does not have.
func withoutStreamingLists(lw cache.ListerWatcher) bool {
	says, is := lw.(interface{ IsWatchListSemanticsUnSupported() bool })
	return is && says.IsWatchListSemanticsUnSupported()
}

// Over returns an informer that reads from a source of package informer, which can have
// its own decoder, selectors and types. The store holds objects of type T. resync and
// indexers are as in [New].
func Over[T informer.Object](source informer.Source[T], resync time.Duration, indexers cache.Indexers,
	opts ...Option,
) cache.SharedIndexInformer {
	s := newSettings(opts)
	s.name = fmt.Sprintf("%T", *new(T))
	in := func(o any) (T, error) {
		object, is := o.(T)
		if !is {
			return object, fmt.Errorf("the transform returned a %T for a %s", o, s.name)
		}
		return object, nil
	}
	return newSharedInformer(source, form[T]{in: in, out: func(o T) any { return o }}, s, indexersWith{resync, indexers})
}

// Option changes the behavior of a replacement.
type Option func(*settings)

type settings struct {
	name     string
	relists  bool
	informer []informer.Option
	handlers []informer.HandleOption
	incident func(informer.Incident)
}

func newSettings(opts []Option) settings {
	s := settings{incident: func(informer.Incident) {}}
	for _, opt := range opts {
		opt(&s)
	}
	return s
}

// RelistUpdates calls OnUpdate(o, o) of every handler for every unchanged object after
// each re-list, as client-go does for handlers without a resync period. By default a
// re-list causes no calls for unchanged objects. RelistUpdates is for programs that rely
// on the re-list as their resync.
func RelistUpdates() Option { return func(s *settings) { s.relists = true } }

// Informer passes options to the underlying informer. An informer.OnError among them is
// not called; use [OnIncident] instead.
func Informer(opts ...informer.Option) Option {
	return func(s *settings) { s.informer = append(s.informer, opts...) }
}

// Handlers passes options to every handler: informer.Every to get each version, as in
// client-go but with a bounded queue, informer.Workers, or informer.Retry for handlers
// that panic. An option for another type of objects is an error of AddEventHandler.
func Handlers(opts ...informer.HandleOption) Option {
	return func(s *settings) { s.handlers = append(s.handlers, opts...) }
}

// OnIncident calls f for every incident; see informer.OnError.
func OnIncident(f func(informer.Incident)) Option {
	return func(s *settings) { s.incident = f }
}
