// Package informer keeps a local copy of a Kubernetes collection and calls handlers
// with the changes.
//
// A [Source] is where the objects come from. An [Informer] holds their current state as an
// immutable snapshot and keeps it current while Run runs. An [Event] is one change, as a
// handler gets it. A [Registration] is a handler that was added. A [Status] describes the
// informer now, and an [Incident] something that went wrong.
//
//	pods := informer.New(informer.For[*corev1.Pod](cfg, podGVR))
//	pods.Handle(func(ctx context.Context, e informer.Event[*corev1.Pod]) error {
//		return react(ctx, e.Type, e.Object())
//	}, informer.Workers(4))
//	return pods.Run(ctx)
//
// There are three kinds of handlers: [Informer.Handle] is called with events,
// [Informer.Reconcile] with keys, and [Informer.Events] is an iterator over events.
// Options select which changes they get. docs/informer.md explains the package in terms
// of client-go.
//
// # What a handler can rely on
//
// It is called for every object that exists at the beginning (Initial) and for every
// change after that. Calls for one key never overlap and never go back: after a state
// was delivered, no older one is, also across retries, resyncs and re-lists. Changes of
// a key that waits are merged. So a slow or failing handler is behind by at most one
// pending state per key (a deletion and a new object with the same name count as two),
// and it never slows down another handler or the cache. Old is the state that this
// handler handled last. An object that was created and deleted between two calls is
// not delivered. There is no order between keys. An error or a panic leads to another
// call for that key, with the newest state, after a pause; see Retry. When a handler is
// called, Get and All return the event's state or a newer one.
//
// # What happens on 410
//
// The informer reads the state again at once, at a resourceVersion not older than its
// own, and compares: objects with an equal resourceVersion keep their pointer and cause
// no event, objects that are gone are Deleted (Inferred), and another UID under the same
// name is Deleted and Added. The end of a watch, an error or a timeout is no reason to
// read the state again: the watch continues from the last resourceVersion, after a check
// that the server still has the history that it belongs to; see WentBack and Gap.
package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/gapless-io/gapless/informer/internal/cache"
)

// ErrRunning is returned by Run when the informer is already running.
var ErrRunning = errors.New("the informer is already running")

// Informer is a cache of one collection. All methods are safe for concurrent use,
// before, during and after Run.
type Informer[T Object] struct {
	source Source[T]
	opts   options
	cache  *cache.Cache[T]

	// mu guards the fields below.
	mu      sync.Mutex
	running bool
	failed  *failed // of the current Run, or of the last one
	misuse  error   // an option of a handler is for another type
	named   int     // handlers that were numbered

	// statusMu guards status. No other lock is taken under it.
	statusMu sync.Mutex
	status   Status

	// recordMu orders the metrics of snapshots. No method takes it.
	recordMu sync.Mutex
}

// failed is the error of a Run that gave up.
type failed struct {
	done chan struct{} // closed when err is set
	err  error
}

// New returns an informer. It does nothing until Run is called.
func New[T Object](source Source[T], opts ...Option) *Informer[T] {
	i := &Informer[T]{source: source, opts: newOptions(opts), failed: &failed{done: make(chan struct{})}}
	i.status = Status{Name: source.name, Incidents: map[IncidentKind]int64{}}
	if (len(source.streams) == 0 || source.decode == nil) && source.err == nil {
		i.source.err = errors.New("no source, or a source without a decoder")
	}
	if err := i.opts.tuning.Validate(); err != nil {
		i.source.err = errors.Join(i.source.err, err)
	}
	i.cache = cache.New(cache.Hooks[T]{Report: i.report, Begin: i.begins, End: i.ended, Published: i.published})
	if source.decode != nil {
		hold := i.source.holds()
		for _, s := range source.streams {
			i.cache.AddStream(s.namespace, i.source.reads(s, hold), i.opts.begin())
		}
	}
	return i
}

// Run keeps the cache current and calls the handlers until ctx ends. Then it returns
// nil as soon as all of its goroutines have ended: within 100 ms, if the handlers obey
// their context. It returns an error only if it cannot begin (ErrRunning, or an invalid
// source, option or handler option) or if it gives up, which needs Stop4xx. It can be
// called again, and then continues where it stopped, in the server's history and with
// the handlers.
func (i *Informer[T]) Run(ctx context.Context) error {
	if err := i.start(); err != nil {
		return fmt.Errorf("run informer of %s: %w", i.source.name, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	i.cache.Start(ctx)
	finish := i.persist(ctx)
	err := i.cache.Reflect(ctx)
	finish()
	if err != nil {
		err = fmt.Errorf("run informer of %s: %w", i.source.name, err)
		i.mu.Lock()
		i.failed.err = err
		close(i.failed.done)
		i.mu.Unlock()
	}
	i.cache.Stop(stop)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running = false
	return err
}

func (i *Informer[T]) start() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.source.err != nil:
		return i.source.err
	case i.running:
		return ErrRunning
	case i.misuse != nil:
		return i.misuse
	}
	i.running = true
	if i.failed.err != nil {
		i.failed = &failed{done: make(chan struct{})}
	}
	return nil
}

// WaitSynced blocks until the cache has held a complete state. It returns an error at
// once if Run cannot begin or has given up, and when ctx ends; the error says what went
// wrong.
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	failed, err := i.unable()
	if err != nil {
		return fmt.Errorf("informer of %s is not synced: %w", i.source.name, err)
	}
	select {
	case <-i.cache.Synced():
		return nil
	default:
	}
	select {
	case <-i.cache.Synced():
		return nil
	case <-failed.done:
		return fmt.Errorf("informer of %s is not synced: %w", i.source.name, failed.err)
	case <-ctx.Done():
	}
	return fmt.Errorf("informer of %s is not synced, it is %s: %w", i.source.name, i.doing(), context.Cause(ctx))
}

// unable returns why Run cannot begin, and what is closed when it gives up.
func (i *Informer[T]) unable() (*failed, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.source.err != nil {
		return i.failed, i.source.err
	}
	return i.failed, i.misuse
}

// Get returns the object as it is in the cache. It is shared and must not be modified.
func (i *Informer[T]) Get(k Key) (object T, found bool) { return i.cache.Current().Get(k) }

// All yields the objects of one state, by namespace and name, whatever changes
// meanwhile. They are shared and must not be modified. It holds no lock.
func (i *Informer[T]) All() iter.Seq2[Key, T] { return i.cache.Current().All() }

// Len is how many objects there are.
func (i *Informer[T]) Len() int { return i.cache.Current().Tree.Len() }

// ResourceVersion is the version that the cache's state has; "" before the first sync.
func (i *Informer[T]) ResourceVersion() string { return i.cache.Current().RV }
