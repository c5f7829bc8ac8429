package informer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/gapless-io/gapless/informer/internal/queue"
)

// change is what the cache tells the handlers.
type change[T Object] = queue.Change[T]

// handler is what a handler has still to be told, and what Run does for it besides.
type handler[T Object] struct {
	*queue.Queue[T]
	name   string
	resync time.Duration
}

// Handle adds a handler, also while the informer runs; it is then first called for
// the objects that are there (Initial). See the package comment for what it can
// rely on. The context it gets ends with Run and with Registration.Stop.
func (i *Informer[T]) Handle(handle func(context.Context, Event[T]) error, opts ...HandleOption) *Registration {
	o := newHandleOptions(opts)
	i.mu.Lock()
	defer i.mu.Unlock()
	if o.name == "" {
		i.named++
		o.name = "handler-" + strconv.Itoa(i.named)
	}
	h := &handler[T]{name: o.name, resync: o.resync}
	tell := func(ctx context.Context, t queue.Told[T]) error { return handle(ctx, eventOf(t)) }
	h.Queue = queue.New(tell, o.queue, func(t queue.Trouble) { i.report(troubleOf(t, o.name)) })
	if now := i.current.Load(); now.rv != "" {
		var all []change[T]
		for k, object := range now.all() {
			all = append(all, change[T]{Key: k, New: object, RV: object.GetResourceVersion()})
		}
		h.Add(all, true)
		h.Prime()
	}
	i.handlers = append(i.handlers, h)
	if i.running != nil {
		i.startLocked(h)
	}
	return &Registration{name: h.name, queue: h, remove: func() { i.remove(h) }}
}

func eventOf[T Object](t queue.Told[T]) Event[T] {
	return Event[T]{
		Type: EventType(t.Kind), Key: t.Key, Old: t.Old, New: t.New, RV: t.RV,
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
	}
	return in
}

// startLocked starts a handler's goroutines. They end with the context of Run.
func (i *Informer[T]) startLocked(h *handler[T]) {
	ctx := h.Start(i.running.ctx, i.running.group.Go)
	if ctx != nil && h.resync > 0 {
		i.running.group.Go(func() { i.resync(ctx, h) })
	}
}

func (i *Informer[T]) remove(h *handler[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	// A copy: who published last may still walk over the old one.
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(other *handler[T]) bool { return other == h })
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
	var last Key
	for {
		wait, n := portion(i.Len(), h.resync)
		pause(ctx, wait)
		if ctx.Err() != nil {
			return
		}
		// Under mu, so that nothing newer than what is read here can have been handed
		// over already.
		i.mu.Lock()
		some := i.current.Load().after(last, n)
		for _, e := range some {
			h.Resync(e.key, e.object, e.object.GetResourceVersion())
		}
		i.mu.Unlock()
		last = Key{}
		if len(some) == n {
			last = some[n-1].key
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

// pause waits for a time, or for the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
