package informer

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/informer/internal/queue"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// change is what the cache tells the handlers.
type change[T Object] = queue.Change[held[T]]

// handler is a handler of an informer: what it has still to be told, and what Run
// does for it besides.
type handler[T Object] struct {
	*queue.Queue[held[T]]
	name   string
	opts   handleOptions
	pulled bool // it has no workers: who pulls does their work
}

// Handle adds a handler, also while the informer runs; it is then first called for
// the objects that are there (Initial). See the package comment for what it can
// rely on. The context it gets ends with Run and with Registration.Stop.
func (i *Informer[T]) Handle(handle func(context.Context, Event[T]) error, opts ...HandleOption) *Registration {
	return i.register(func(ctx context.Context, t queue.Told[held[T]]) error { return handle(ctx, eventOf(t)) }, newHandleOptions(opts))
}

// Reconcile adds a handler that is told only where to look: it is called with the
// key of each object that is there at the beginning, and with the key of each that
// was added, changed or deleted since; what the state is now, Get says. All that
// waits of a key is one call, a deletion and a new object with the same name too.
// Otherwise it is as with Handle: per key never two calls at once, an error or a
// panic leads to another call, and Where and Changed say what is worth one. Every
// has no meaning here.
func (i *Informer[T]) Reconcile(reconcile func(context.Context, Key) error, opts ...HandleOption) *Registration {
	o := newHandleOptions(opts)
	o.queue.KeysOnly, o.queue.Every = true, 0
	return i.register(func(ctx context.Context, t queue.Told[held[T]]) error { return reconcile(ctx, t.Key) }, o)
}

// Events yields what a handler would be told, with the same merging and the same
// guarantees, until ctx ends, whether the informer runs or not. An event counts as
// handled when the next one is asked for. Each range over it begins anew with the
// objects that are there (Initial), and what it had not asked for is dropped when it
// ends. Who takes long is behind, and delays nobody. Workers and Retry have no
// meaning here.
//
// If Every is full under the policy Fail, or an option is for another type, it ends
// early; the incident says so.
func (i *Informer[T]) Events(ctx context.Context, opts ...HandleOption) iter.Seq[Event[T]] {
	o := newHandleOptions(opts)
	return func(yield func(Event[T]) bool) {
		h := i.newHandler(nil, o)
		h.pulled = true
		i.add(h)
		defer i.remove(h, ErrStopped)
		h.Pull(ctx, func(t queue.Told[held[T]]) bool { return yield(eventOf(t)) })
	}
}

func (i *Informer[T]) register(tell func(context.Context, queue.Told[held[T]]) error, o handleOptions) *Registration {
	h := i.newHandler(tell, o)
	i.add(h)
	return &Registration{
		name: h.name, queue: h, synced: h.Synced(), done: h.Done(),
		enqueue: func(k Key) { i.enqueue(h, k) },
		remove:  func() { i.remove(h, ErrStopped) },
	}
}

func (i *Informer[T]) newHandler(tell func(context.Context, queue.Told[held[T]]) error, o handleOptions) *handler[T] {
	i.mu.Lock()
	if o.name == "" {
		i.named++
		o.name = "handler-" + strconv.Itoa(i.named)
	}
	i.mu.Unlock()
	h := &handler[T]{name: o.name, opts: o}
	filter, err := filterOf[T](o)
	h.Queue = queue.New(tell, filter, o.queue, func(t queue.Trouble) { i.report(troubleOf(t, o.name)) })
	if err != nil {
		h.Stop(err)
		i.report(Incident{Kind: HandlerStopped, At: time.Now(), Err: err, Handler: o.name})
	}
	return h
}

// add tells a handler the state that there is, and from now on what changes.
func (i *Informer[T]) add(h *handler[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if h.Err() != nil {
		return
	}
	if now := i.current.Load(); now.rv != "" {
		if !h.opts.queue.SkipInitial {
			all := make([]change[T], 0, i.Len())
			now.tree.Scan(func(e state.Entry[held[T]]) bool {
				all = append(all, change[T]{Key: e.Key, New: e.Object, RV: e.Object.GetResourceVersion()})
				return true
			})
			h.Add(all, true)
		}
		h.Prime()
	}
	i.handlers = append(i.handlers, h)
	if i.running != nil {
		i.startLocked(h)
	}
}

// tellLocked tells a handler what changed. Who calls it belongs to Run.
func (i *Informer[T]) tellLocked(h *handler[T], changes []change[T], initial bool) {
	trouble := h.Add(changes, initial)
	if trouble.Kind == 0 {
		return
	}
	// Not under mu. Run waits for it.
	i.running.group.Go(func() {
		if trouble.Kind == queue.Stopped {
			i.remove(h, trouble.Err)
		}
		i.report(troubleOf(trouble, h.name))
	})
}

func eventOf[T Object](t queue.Told[held[T]]) Event[T] {
	return Event[T]{
		Type: EventType(t.Kind), Key: t.Key, Old: t.Old.Get(), New: t.New.Get(), RV: t.RV,
		Initial: t.Initial, Inferred: t.Inferred, Merged: t.Merged, Attempt: t.Attempt,
	}
}

// troubleOf says what went wrong with the handler of that name.
func troubleOf(t queue.Trouble, name string) Incident {
	in := Incident{At: time.Now(), Err: t.Err, RV: t.RV, Key: t.Key, Handler: name, Next: t.Next}
	switch t.Kind {
	case queue.Failed:
		in.Kind = HandlerFailed
	case queue.Panicked:
		in.Kind = HandlerPanicked
		if p, is := errors.AsType[*queue.PanicError](t.Err); is {
			in.Err = &PanicError{Value: p.Value, Stack: p.Stack}
		}
	case queue.GaveUp:
		in.Kind = HandlerGaveUp
	case queue.Restated:
		in.Kind = HandlerRestated
	case queue.Stopped:
		in.Kind = HandlerStopped
	}
	return in
}

// startLocked starts a handler's goroutines. They end with the context of Run, or
// with the handler.
func (i *Informer[T]) startLocked(h *handler[T]) {
	if !h.pulled {
		h.Start(i.running.ctx, i.running.group.Go)
	}
	if h.opts.resync > 0 {
		ctx := i.running.ctx
		i.running.group.Go(func() { i.resync(ctx, h) })
	}
}

// remove stops a handler for ever; calls that run are not waited for.
func (i *Informer[T]) remove(h *handler[T], why error) {
	i.mu.Lock()
	// A copy: who published last may still walk over the old one.
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(other *handler[T]) bool { return other == h })
	i.mu.Unlock()
	h.Stop(why)
}

// enqueue hands over the state that a key has now.
func (i *Informer[T]) enqueue(h *handler[T], key Key) {
	// Under mu, so that nothing newer can have been handed over.
	i.mu.Lock()
	defer i.mu.Unlock()
	object, found := i.current.Load().tree.Of(key)
	rv := ""
	if found {
		rv = object.GetResourceVersion()
	}
	h.Ask(key, object, rv)
}

// waitRoom waits for handlers that want every version and are full.
func (i *Informer[T]) waitRoom() {
	i.mu.Lock()
	handlers, run := i.handlers, i.running
	i.mu.Unlock()
	for _, h := range handlers {
		h.WaitRoom(run.ctx)
	}
}

// resync hands the objects over once per period, a few at a time.
func (i *Informer[T]) resync(ctx context.Context, h *handler[T]) {
	select {
	case <-i.synced: // before, there is nothing to hand over
	case <-ctx.Done():
		return
	case <-h.Done():
		return
	}
	var last Key
	for {
		wait, n := portion(i.Len(), h.opts.resync)
		if pause(ctx, h.Done(), wait); ctx.Err() != nil || h.Err() != nil {
			return
		}
		// Under mu, so that nothing newer than what is read here can have been handed
		// over already.
		i.mu.Lock()
		now := i.current.Load()
		some := now.tree.After(last, n)
		if len(some) < n && last != (Key{}) {
			some = append(some, now.tree.After(Key{}, n-len(some))...) // and on from the beginning
		}
		for _, e := range some {
			h.Resync(e.Key, e.Object, e.Object.GetResourceVersion())
		}
		i.mu.Unlock()
		if len(some) > 0 {
			last = some[len(some)-1].Key
		}
	}
}

// portion divides a period: how long to wait, and how many of total objects are due
// then. Pauses are at least 50 ms, so that many objects cost few wake-ups.
func portion(total int, period time.Duration) (wait time.Duration, n int) {
	if total == 0 {
		return period, 1
	}
	wait = max(period/time.Duration(total), min(50*time.Millisecond, period))
	return wait, int((int64(total)*int64(wait) + int64(period) - 1) / int64(period))
}

// pause waits for a time, or for the end of ctx or done, which can be nil.
func pause(ctx context.Context, done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-done:
	case <-timer.C:
	}
}
