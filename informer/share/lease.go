package share

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/informer"
)

// Lease is one holder's part in an informer. Its methods are those of
// informer.Informer; what is said there holds here. All are safe for concurrent use.
// After Release the cache can still be read, and stays what it was or is what others
// made of it.
type Lease[T informer.Object] struct {
	informer *informer.Informer[T]
	ticket   *ticket
	cleanup  runtime.Cleanup

	// mu guards handlers and over.
	mu       sync.Mutex
	handlers []*informer.Registration
	over     context.Context //nolint:containedctx // one that has ended, once the lease was released; nil: it is held
}

// Release gives the lease back: handlers are stopped, waits and Events through it end,
// and if it was the last one, the informer does. It returns when all of that has ended,
// or with ctx's cause when ctx ends before; the rest ends on its own then, and Run of
// the pool waits for it. Called again, it waits again. A handler, or the body of a loop
// over Events, must not wait for it.
func (l *Lease[T]) Release(ctx context.Context) error {
	l.cleanup.Stop()
	handlers, over := l.end(ctx)
	l.ticket.drop()
	for _, h := range handlers {
		_ = h.Stop(over) // all of them first; it is waited for below
	}
	err := l.ticket.wait(ctx)
	for _, h := range handlers {
		if stopped := h.Stop(ctx); err == nil {
			err = stopped
		}
	}
	if err != nil {
		return fmt.Errorf("release the lease of %s, taken at %s: %w", l.ticket.of.name, l.ticket.taken, err)
	}
	return nil
}

// end refuses further handlers, and returns those that there are.
func (l *Lease[T]) end(ctx context.Context) (handlers []*informer.Registration, over context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil {
		ended, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		cancel(ErrReleased)
		l.over = ended
	}
	return slices.Clone(l.handlers), l.over
}

// Handle adds a handler, which ends with the lease: informer.Informer.Handle. On a
// lease that was released it is stopped from the beginning.
func (l *Lease[T]) Handle(handle func(context.Context, informer.Event[T]) error, opts ...informer.HandleOption) *informer.Registration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		handle, opts = func(context.Context, informer.Event[T]) error { return nil }, nil
	}
	return l.keepLocked(l.informer.Handle(func(ctx context.Context, e informer.Event[T]) error {
		defer runtime.KeepAlive(l) // a handler holds the lease
		return handle(ctx, e)
	}, opts...))
}

// Reconcile adds a handler that is called with keys, and ends with the lease:
// informer.Informer.Reconcile. On a lease that was released it is stopped from the
// beginning.
func (l *Lease[T]) Reconcile(reconcile func(context.Context, informer.Key) error, opts ...informer.HandleOption) *informer.Registration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		reconcile, opts = func(context.Context, informer.Key) error { return nil }, nil
	}
	return l.keepLocked(l.informer.Reconcile(func(ctx context.Context, k informer.Key) error {
		defer runtime.KeepAlive(l) // a handler holds the lease
		return reconcile(ctx, k)
	}, opts...))
}

// keepLocked takes care that a handler ends with the lease.
func (l *Lease[T]) keepLocked(r *informer.Registration) *informer.Registration {
	if l.over != nil {
		_ = r.Stop(l.over) // nothing of the caller's runs that could be waited for
		return r
	}
	l.handlers = append(slices.DeleteFunc(l.handlers, func(r *informer.Registration) bool { return r.Err() != nil }), r)
	return r
}

// Events yields what a handler would be told, until ctx or the lease ends, or the
// informer turns out not to run: informer.Informer.Events.
func (l *Lease[T]) Events(ctx context.Context, opts ...informer.HandleOption) iter.Seq[informer.Event[T]] {
	return func(yield func(informer.Event[T]) bool) {
		within, end, err := l.ticket.begin(ctx)
		if err != nil {
			return
		}
		defer runtime.KeepAlive(l)
		defer end()
		l.informer.Events(within, opts...)(yield)
	}
}

// WaitSynced blocks until the cache has held a complete state. Otherwise it says what
// stood in the way: ctx or the lease ended, or the informer cannot run.
func (l *Lease[T]) WaitSynced(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	within, end, err := l.ticket.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return l.informer.WaitSynced(within)
}

// WaitRevision blocks until the cache holds everything up to a resource version:
// informer.Informer.WaitRevision. It ends with an error if the lease ends, or the
// informer cannot run.
func (l *Lease[T]) WaitRevision(ctx context.Context, rv string) error {
	defer runtime.KeepAlive(l)
	within, end, err := l.ticket.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return l.informer.WaitRevision(within, rv)
}

// Until blocks until an object is as it should be: informer.Informer.Until. It ends
// with an error if the lease ends, or the informer cannot run.
func (l *Lease[T]) Until(ctx context.Context, key informer.Key, condition func(object T, found bool) bool) (T, error) {
	defer runtime.KeepAlive(l)
	within, end, err := l.ticket.begin(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer end()
	return l.informer.Until(within, key, condition)
}

// Get returns the object as it is in the cache. It is shared and must not be modified.
func (l *Lease[T]) Get(k informer.Key) (object T, found bool) { return l.informer.Get(k) }

// All yields the objects of one state: informer.Informer.All.
func (l *Lease[T]) All() iter.Seq2[informer.Key, T] { return l.informer.All() }

// In yields the objects of one namespace: informer.Informer.In.
func (l *Lease[T]) In(namespace string) iter.Seq2[informer.Key, T] { return l.informer.In(namespace) }

// Select yields the objects whose labels match: informer.Informer.Select.
func (l *Lease[T]) Select(selector labels.Selector) iter.Seq2[informer.Key, T] {
	return l.informer.Select(selector)
}

// Len is how many objects there are.
func (l *Lease[T]) Len() int { return l.informer.Len() }

// Snapshot returns the state that the cache is in now.
func (l *Lease[T]) Snapshot() informer.Snapshot[T] { return l.informer.Snapshot() }

// ResourceVersion is the version of the cache; "" before the first sync.
func (l *Lease[T]) ResourceVersion() string { return l.informer.ResourceVersion() }

// Status returns how the informer is, which counts since its first lease.
func (l *Lease[T]) Status() informer.Status { return l.informer.Status() }

// index is an index of a shared informer.
type index struct {
	form  reflect.Type
	build sync.Once
	index any // *informer.Index[T, V], when it was built
}

// NewIndex returns the index of that name of a lease's informer, which is made if
// nobody has done so, with informer.NewIndex. It is one for all leases, and lives as
// long as the informer: the first one's function counts. If it is of another type than
// V, that is ErrConflict; after Release it is ErrReleased.
func NewIndex[T informer.Object, V comparable](l *Lease[T], name string, values func(object T) []V) (*informer.Index[T, V], error) {
	return indexOf(l, name, func() *informer.Index[T, V] { return informer.NewIndex(l.informer, name, values) })
}

// NewIndex1 is NewIndex for a function with exactly one value.
func NewIndex1[T informer.Object, V comparable](l *Lease[T], name string, value func(object T) V) (*informer.Index[T, V], error) {
	return indexOf(l, name, func() *informer.Index[T, V] { return informer.NewIndex1(l.informer, name, value) })
}

func indexOf[T informer.Object, V comparable](l *Lease[T], name string, build func() *informer.Index[T, V]) (*informer.Index[T, V], error) {
	defer runtime.KeepAlive(l)
	x, err := l.ticket.index(name, reflect.TypeFor[V]())
	if err != nil {
		return nil, err
	}
	x.build.Do(func() { x.index = build() }) // whoever comes second waits until it is complete
	built, is := x.index.(*informer.Index[T, V])
	if !is {
		return nil, fmt.Errorf("index %s of %s: the function that made it panicked", name, l.ticket.of.name)
	}
	return built, nil
}

// index returns the index of a name, to be built by who is first.
func (t *ticket) index(name string, form reflect.Type) (*index, error) {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	if t.over {
		return nil, fmt.Errorf("index %s of %s: %w", name, t.of.name, ErrReleased)
	}
	x, is := t.of.indices[name]
	if !is {
		x = &index{form: form}
		t.of.indices[name] = x
	}
	if x.form != form {
		return nil, fmt.Errorf("index %s of %s by %s: %w, by %s", name, t.of.name, form, ErrConflict, x.form)
	}
	return x, nil
}
