package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/gapless-io/gapless/informer/internal/cache"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/queue"
)

// Handle adds a handler, before or while the informer runs. It is first called for the
// objects that exist (Initial). The package comment says what it can rely on. The
// context that it gets ends with Run and with Registration.Stop.
func (i *Informer[T]) Handle(handle func(context.Context, Event[T]) error, opts ...HandleOption) *Registration {
	return i.register(func(ctx context.Context, d queue.Delivery[T]) error { return handle(ctx, eventOf(d)) },
		newHandleOptions(opts))
}

// Reconcile adds a handler that gets only keys: it is called with the key of each
// object that exists at the beginning, and then with the key of each object that was
// added, changed or deleted; Get returns the current state. Everything that waits for a
// key is one call, also a deletion and a new object with the same name. Otherwise it is
// like Handle: calls for one key never overlap, an error or a panic leads to another
// call, and Where and Changed select the changes. Every has no effect.
func (i *Informer[T]) Reconcile(reconcile func(context.Context, Key) error, opts ...HandleOption) *Registration {
	o := newHandleOptions(opts)
	o.queue.KeysOnly, o.queue.Every = true, 0
	return i.register(func(ctx context.Context, d queue.Delivery[T]) error { return reconcile(ctx, d.Key) }, o)
}

// Events returns an iterator over the events that a handler would get, merged in the
// same way and with the same guarantees. It ends when ctx ends, not when Run ends. An
// event counts as handled when the next one is requested. Each range over it begins
// with the objects that exist (Initial); events that it did not request are dropped when
// it ends. A slow loop delays nothing else. Workers and Retry have no effect.
//
// It ends early if Every is full under the policy Fail, or if an option is for another
// type; the incident HandlerStopped says so.
func (i *Informer[T]) Events(ctx context.Context, opts ...HandleOption) iter.Seq[Event[T]] {
	o := newHandleOptions(opts)
	return func(yield func(Event[T]) bool) {
		h := i.newHandler(nil, o)
		h.Pulled = true
		i.cache.Add(h)
		defer i.cache.Remove(h, ErrStopped)
		h.Pull(ctx, func(d queue.Delivery[T]) bool { return yield(eventOf(d)) })
	}
}

func (i *Informer[T]) register(call func(context.Context, queue.Delivery[T]) error, o handleOptions) *Registration {
	h := i.newHandler(call, o)
	i.cache.Add(h)
	return &Registration{
		name: h.Name, queue: h, synced: h.Synced(), done: h.Done(),
		enqueue: func(k Key) { i.cache.Enqueue(h, k) },
		remove:  func() { i.cache.Remove(h, ErrStopped) },
	}
}

func (i *Informer[T]) newHandler(call func(context.Context, queue.Delivery[T]) error, o handleOptions) *cache.Handler[T] {
	if o.name == "" {
		o.name = i.nextName()
	}
	filter, err := queue.NewFilter[T](o.where, o.differ)
	h := &cache.Handler[T]{Name: o.name, SkipInitial: o.queue.SkipInitial, Resync: o.resync}
	h.Queue = queue.New(call, filter, o.queue, func(in incident.Incident) {
		in.Handler = o.name
		i.report(in)
	})
	if err != nil {
		i.misused(fmt.Errorf("handler %s: %w", o.name, err))
		h.Stop(err)
		i.report(incident.Incident{Kind: incident.HandlerStopped, Err: err, Handler: o.name})
	}
	return h
}

// nextName returns a name for a handler that has none.
func (i *Informer[T]) nextName() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.named++
	return "handler-" + strconv.Itoa(i.named)
}

// misused makes the next Run fail. A Run that is running goes on: others use it.
func (i *Informer[T]) misused(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.running {
		i.misuse = errors.Join(i.misuse, err)
	}
}

func eventOf[T Object](d queue.Delivery[T]) Event[T] {
	return Event[T]{
		Type: EventType(d.Kind), Key: d.Key, Old: d.Old.Get(), New: d.New.Get(), RV: d.RV,
		Initial: d.Initial, Inferred: d.Inferred, Merged: d.Merged, Attempt: d.Attempt,
	}
}
