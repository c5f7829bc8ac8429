// Package clientgo puts the informers of this module where client-go's are
// expected: in generated factories, under generated listers, in controller-runtime.
//
// It has three nouns. A stand-in is a cache.SharedIndexInformer of client-go 0.37,
// made by [New], [With] or [Over], over package informer. A ListerWatcher or an
// [informer.Source] is where it reads from. An [Option] says where it is to behave
// in one way or another.
//
//	factory.InformerFor(&corev1.Pod{}, func(c kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
//		return clientgo.New(podsOf(c), &corev1.Pod{}, resync, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
//	})
//	manager.Options{Cache: cache.Options{NewInformer: clientgo.New}} // controller-runtime
//
// # What is as in client-go
//
// Handlers are called in sequence, one goroutine each, first for every object that
// is there (isInInitialList); the store is at an event's state or newer when a
// handler is called for it; deletions that nobody saw come as
// cache.DeletedFinalStateUnknown, by value; handlers and indexers can be added while
// it runs, not after; it runs once. The store is client-go's own, so that programs
// which write into it (tests do) find what they wrote.
//
// # What differs on purpose
//
// MIGRATING-from-client-go.md has the list, and TestDifferences holds it to that:
// unchanged objects raise no call when the state is read again (see
// [RelistUpdates]), changes of a key that waits are merged (see [Handlers]), another
// object under the same name is deleted and added, a panic of a handler or an index
// function ends nothing, and the error handler also hears of a 410.
package clientgo

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/features"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/gapless-io/gapless/informer"
)

// Constructor makes informers. It is the type of NewInformer in controller-runtime's
// cache.Options, and cache.NewSharedIndexInformer is one.
type Constructor = func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer

// New makes an informer of what lw lists and watches; it is a [Constructor]. Events
// with objects of another type than example are dropped; nil: all are taken. resync
// is the period for handlers that do not say one, 0: none. indexers may be nil.
// Nothing is requested before Run.
func New(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
	return With()(lw, example, resync, indexers)
}

// With is New with options.
func With(opts ...Option) Constructor {
	return func(lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		s := newSettings(opts)
		s.name = fmt.Sprintf("%T", example)
		if watchlist.DoesClientNotSupportWatchListSemantics(lw) || !features.FeatureGates().Enabled(features.WatchListClient) {
			s.informer = append(s.informer, informer.NoStreamingLists())
		}
		b := newBackend(lw, example)
		return newStandIn(informer.From(s.name, b, b.decode), form[metav1.Object]{in: hold, out: held}, s, indexersWith{resync, indexers})
	}
}

// Over makes an informer of any source of package informer, with what that offers:
// its own decoder, selectors, partial types. The store holds objects of type T.
// See New for resync and indexers.
func Over[T informer.Object](source informer.Source[T], resync time.Duration, indexers cache.Indexers, opts ...Option) cache.SharedIndexInformer {
	s := newSettings(opts)
	s.name = fmt.Sprintf("%T", *new(T))
	cast := func(o any) (T, error) {
		object, is := o.(T)
		if !is {
			return object, fmt.Errorf("a transform made %T of a %s", o, s.name)
		}
		return object, nil
	}
	return newStandIn(source, form[T]{in: cast, out: func(o T) any { return o }}, s, indexersWith{resync, indexers})
}

// Option says how a stand-in behaves.
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

// RelistUpdates calls OnUpdate(o, o) of every handler for every unchanged object
// whenever the whole state was read again, as client-go does for handlers without
// a resync period. Without it, and by default, unchanged objects raise no call. It
// is for programs that use the re-list as their resync.
func RelistUpdates() Option { return func(s *settings) { s.relists = true } }

// Informer passes options to the informer below. To hear of incidents use
// OnIncident: an informer.OnError here is not called.
func Informer(opts ...informer.Option) Option {
	return func(s *settings) { s.informer = append(s.informer, opts...) }
}

// Handlers passes options to every handler: informer.Every, for a handler that is
// to be told each version as in client-go, but with a bound; informer.Workers;
// informer.Retry for handlers that panic.
func Handlers(opts ...informer.HandleOption) Option {
	return func(s *settings) { s.handlers = append(s.handlers, opts...) }
}

// OnIncident is called for everything that goes wrong; see informer.OnError.
func OnIncident(f func(informer.Incident)) Option {
	return func(s *settings) { s.incident = f }
}
