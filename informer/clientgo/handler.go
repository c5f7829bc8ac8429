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

// registration is a handler that was added. It is a
// cache.ResourceEventHandlerRegistration and knows cache.ShutDownEventHandler.
type registration struct {
	name  string
	below *informer.Registration

	// mu guards all below.
	mu      sync.Mutex
	calls   int // running
	removed bool
	closed  bool
	down    chan struct{} // closed when it was removed and no call runs
}

// HasSynced says whether the handler was called for all that was there.
func (r *registration) HasSynced() bool { return cache.IsDone(r.HasSyncedChecker()) }

// HasSyncedChecker is HasSynced to wait for.
func (r *registration) HasSyncedChecker() cache.DoneChecker {
	return checker{name: r.name, done: r.below.Synced()}
}

// ShutdownChan is closed when the handler was removed, or the informer stopped, and
// no call of it runs any more.
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
	r.settleLocked()
}

// end says that there will be no more calls.
func (r *registration) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.removed = true
	r.settleLocked()
}

func (r *registration) settleLocked() {
	if r.removed && r.calls == 0 && !r.closed {
		r.closed = true
		close(r.down)
	}
}

// AddEventHandler adds a handler with the informer's resync period.
func (i *standIn[T]) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a resync period of its own.
func (i *standIn[T]) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions adds a handler, before Run or while it runs. A resync
// period below a second is one of a second; the objects are handed over spread over
// the period, and each handler has the period it asked for. Logger is not used.
func (i *standIn[T]) AddEventHandlerWithOptions(h cache.ResourceEventHandler, o cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stoppedLocked() {
		return nil, fmt.Errorf("handler %T was not added: the informer has stopped", h)
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
			i.tell(h, e)
		}
		return nil
	}, opts...)
	r.name = "SharedIndexInformer " + i.settings.name + " + " + r.below.Name()
	i.registrations[r] = struct{}{}
	return r, nil
}

// tell calls a handler in client-go's words.
func (i *standIn[T]) tell(h cache.ResourceEventHandler, e informer.Event[T]) {
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

// RemoveEventHandler ends a handler's calls without waiting for one that runs, and
// drops what it was not told. It may be called again, and by the handler itself.
func (i *standIn[T]) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
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
	_ = r.below.Stop(wait.ContextForChannel(now)) // it does not wait, and says so
	return nil
}
