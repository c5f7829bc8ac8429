package clientgo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer"
)

// registration is a handler that was added. It implements
// cache.ResourceEventHandlerRegistration and the method that cache.ShutDownEventHandler
// looks for.
type registration struct {
	synced // when the handler was called for all initial objects
	below  *informer.Registration

	// mu guards all below.
	mu      sync.Mutex
	calls   int // running
	removed bool
	closed  bool          // down is closed
	down    chan struct{} // closed when the handler was removed and no call runs
}

// ShutdownChan returns a channel that is closed when the handler was removed, or the
// informer stopped, and no call of the handler runs any more.
func (r *registration) ShutdownChan() <-chan struct{} { return r.down }

// enter begins a call, unless the handler was removed.
func (r *registration) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.removed {
		return false
	}
	r.calls++
	return true
}

func (r *registration) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	r.closeLocked()
}

// end says that there will be no more calls.
func (r *registration) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = true
	r.closeLocked()
}

// closeLocked closes down when the handler was removed and no call runs.
func (r *registration) closeLocked() {
	if r.removed && r.calls == 0 && !r.closed {
		r.closed = true
		close(r.down)
	}
}

// AddEventHandler adds a handler with the informer's resync period.
func (i *sharedInformer[T]) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a resync period of its own.
func (i *sharedInformer[T]) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler, before or during Run. Each handler has its
// own resync period, of at least one second, and its resync events are spread over the
// period. Logger is not used.
//
// It returns an error if an option of [Handlers] is for another type than the informer's,
// and Run does too: informer.Where and informer.Changed are for the type of [Over], and for
// metav1.Object in an informer of [New] or [With].
func (i *sharedInformer[T]) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	o cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	stopped := fmt.Errorf("handler %v was not added to shared informer because it has stopped already", h) // client-go's text
	if i.IsStopped() {
		return nil, stopped
	}
	opts := append([]informer.HandleOption(nil), i.settings.handlers...)
	period := i.resync
	if o.ResyncPeriod != nil {
		period = *o.ResyncPeriod
	}
	if period > 0 {
		opts = append(opts, informer.EveryResync(max(period, minResync)))
	}
	r := &registration{down: make(chan struct{})}
	r.below = i.below.Handle(func(_ context.Context, e informer.Event[T]) error {
		if r.enter() {
			defer r.leave()
			i.deliver(h, e)
		}
		return nil
	}, opts...)
	if err := r.below.Err(); err != nil {
		return nil, fmt.Errorf("handler %v was not added: %w", h, err)
	}
	r.synced = newSynced("SharedIndexInformer " + i.settings.name + " + " + r.below.Name())
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended { // since it was asked above
		r.end()
		return nil, stopped
	}
	i.registrations[r] = struct{}{}
	if i.running != nil {
		i.followLocked(i.running, r)
	}
	return r, nil
}

// followLocked lets r have synced when its handler has. The goroutine ends then, or when
// the handler is removed, or with Run, which waits for it.
func (i *sharedInformer[T]) followLocked(ctx context.Context, r *registration) {
	i.handlers.Go(func() {
		select {
		case <-r.below.Synced():
			r.done()
		case <-r.down:
		case <-ctx.Done():
		}
	})
}

// deliver calls the method of a handler that client-go would call for the event.
func (i *sharedInformer[T]) deliver(h cache.ResourceEventHandler, e informer.Event[T]) {
	switch e.Type {
	case informer.Added:
		h.OnAdd(i.form.out(e.New), e.Initial)
	case informer.Modified:
		h.OnUpdate(i.form.out(e.Old), i.form.out(e.New))
	case informer.Resync:
		h.OnUpdate(i.form.out(e.New), i.form.out(e.New))
	case informer.Deleted:
		old := i.form.out(e.Old)
		if e.Inferred {
			old = cache.DeletedFinalStateUnknown{Key: name(e.Key), Obj: old}
		}
		h.OnDelete(old)
	}
}

// RemoveEventHandler removes a handler and drops its pending events. It does not wait
// for a call that runs. It may be called more than once, and by the handler itself.
func (i *sharedInformer[T]) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, is := handle.(*registration)
	if !is {
		return fmt.Errorf("remove event handler: %T is no registration of this informer", handle)
	}
	i.mu.Lock()
	_, is = i.registrations[r]
	delete(i.registrations, r)
	i.mu.Unlock()
	if !is {
		return nil
	}
	r.end()
	now := make(chan struct{})
	close(now)
	_ = r.below.Stop(wait.ContextForChannel(now)) // returns an error because it does not wait
	return nil
}
