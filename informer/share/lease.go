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

// Lease is one holder's access to a shared informer. Its methods are those of
// informer.Informer, with the same guarantees. All are safe for concurrent use. After
// Release the cache can still be read; it is current as long as others hold the informer.
type Lease[T informer.Object] struct {
	informer *informer.Informer[T]
	ticket   *ticket
	cleanup  runtime.Cleanup

	// mu guards handlers and over.
	mu       sync.Mutex
	handlers []*informer.Registration
	over     context.Context //nolint:containedctx // one that has ended, once the lease was released; nil: it is held
}

// Release ends the lease: it stops its handlers, waits and Events, and the informer if
// this was the last lease. It returns when all of them have ended. If ctx ends before, it
// returns ctx's cause; the rest ends later, and the pool's Run waits for it. A second call
// waits again. A handler, or the body of a loop over Events, must not wait
// for it.
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

// Handle adds a handler, which ends with the lease: informer.Informer.Handle. After
// Release, the handler is stopped at once.
func (l *Lease[T]) Handle(handle func(context.Context, informer.Event[T]) error,
	opts ...informer.HandleOption,
) *informer.Registration {
	return l.add(opts, func(c *calls[T], opts []informer.HandleOption) *informer.Registration {
		return l.informer.Handle(func(ctx context.Context, e informer.Event[T]) error {
			defer runtime.KeepAlive(l) // a handler holds the lease
			ctx, end, err := c.begin(ctx)
			if err != nil {
				return nil
			}
			defer end()
			return handle(ctx, e)
		}, opts...)
	})
}

// Reconcile adds a handler that is called with keys, and ends with the lease:
// informer.Informer.Reconcile. After Release, the handler is stopped at once.
func (l *Lease[T]) Reconcile(reconcile func(context.Context, informer.Key) error,
	opts ...informer.HandleOption,
) *informer.Registration {
	return l.add(opts, func(c *calls[T], opts []informer.HandleOption) *informer.Registration {
		return l.informer.Reconcile(func(ctx context.Context, k informer.Key) error {
			defer runtime.KeepAlive(l) // a handler holds the lease
			ctx, end, err := c.begin(ctx)
			if err != nil {
				return nil
			}
			defer end()
			return reconcile(ctx, k)
		}, opts...)
	})
}

// calls are the calls of one handler.
type calls[T informer.Object] struct {
	lease *Lease[T]
	kept  bool // Release knows the handler and waits for its calls; guarded by the lease's mu
}

// begin begins a call, unless the lease was released. The caller calls end. It makes Release
// wait for calls that come before the handler is among those that Release knows.
func (c *calls[T]) begin(ctx context.Context) (within context.Context, end func(), err error) {
	c.lease.mu.Lock()
	over, kept := c.lease.over != nil, c.kept
	c.lease.mu.Unlock()
	switch {
	case over:
		return nil, nil, ErrReleased
	case kept:
		return ctx, func() {}, nil
	}
	return c.lease.ticket.begin(ctx)
}

// add adds a handler, which register makes, and makes it end with the lease. The informer,
// which may call back, is not called under the lock.
func (l *Lease[T]) add(opts []informer.HandleOption,
	register func(*calls[T], []informer.HandleOption) *informer.Registration,
) *informer.Registration {
	l.mu.Lock()
	if l.over != nil {
		opts = nil
	}
	l.mu.Unlock()
	c := &calls[T]{lease: l}
	r := register(c, opts)
	l.mu.Lock()
	over := l.over
	if c.kept = over == nil; c.kept {
		l.handlers = append(slices.DeleteFunc(l.handlers, func(r *informer.Registration) bool { return r.Err() != nil }), r)
	}
	l.mu.Unlock()
	if over != nil {
		_ = r.Stop(over) // Release waits for calls that have begun
	}
	return r
}

// Events returns an iterator over the events that a handler would get, until ctx or the
// lease ends, or the informer cannot run: informer.Informer.Events.
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

// WaitSynced blocks until the cache has held a complete state. It returns an error if ctx
// or the lease ends, or the informer cannot run.
func (l *Lease[T]) WaitSynced(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	within, end, err := l.ticket.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return l.informer.WaitSynced(within)
}

// WaitRevision blocks until the cache contains all changes up to a resourceVersion:
// informer.Informer.WaitRevision. It returns an error if the lease ends, or the informer
// cannot run.
func (l *Lease[T]) WaitRevision(ctx context.Context, rv string) error {
	defer runtime.KeepAlive(l)
	within, end, err := l.ticket.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return l.informer.WaitRevision(within, rv)
}

// Until blocks until a condition holds for an object: informer.Informer.Until. It returns
// an error if the lease ends, or the informer cannot run.
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

// Snapshot returns the current state of the cache.
func (l *Lease[T]) Snapshot() informer.Snapshot[T] { return l.informer.Snapshot() }

// ResourceVersion is the version of the cache; "" before the first sync.
func (l *Lease[T]) ResourceVersion() string { return l.informer.ResourceVersion() }

// Status returns the status of the informer, whose counters are since its first lease.
func (l *Lease[T]) Status() informer.Status { return l.informer.Status() }

// index is an index of a shared informer.
type index struct {
	form  reflect.Type
	build sync.Once
	index any // *informer.Index[T, V], when it was built
}

// NewIndex returns the index with that name of a lease's informer. The first call makes it
// with informer.NewIndex. All leases share it, with the function of the first call, as
// long as the informer lives. It returns ErrConflict if the index has another type than V,
// and ErrReleased after Release.
func NewIndex[T informer.Object, V comparable](l *Lease[T], name string,
	values func(object T) []V,
) (*informer.Index[T, V], error) {
	return indexOf(l, name, func(buffer []V, object T) []V { return append(buffer, values(object)...) })
}

// NewIndex1 is NewIndex for a function with exactly one value.
func NewIndex1[T informer.Object, V comparable](l *Lease[T], name string, value func(object T) V) (*informer.Index[T, V], error) {
	return indexOf(l, name, func(buffer []V, object T) []V { return append(buffer, value(object)) })
}

func indexOf[T informer.Object, V comparable](l *Lease[T], name string, values func([]V, T) []V) (*informer.Index[T, V], error) {
	defer runtime.KeepAlive(l)
	x, err := l.ticket.index(name, reflect.TypeFor[V]())
	if err != nil {
		return nil, err
	}
	report := func() {}
	// a second caller waits until it is complete
	x.build.Do(func() { x.index, report = informer.BuildIndex(l.informer, name, values) })
	report()
	built, is := x.index.(*informer.Index[T, V])
	if !is {
		return nil, fmt.Errorf("index %s of %s: the function that made it panicked", name, l.ticket.of.name)
	}
	return built, nil
}

// index returns the index with a name, which the first caller builds.
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
