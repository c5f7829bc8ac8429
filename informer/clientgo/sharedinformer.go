package clientgo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/gapless-io/gapless/informer"
)

// minResync is the shortest resync period, client-go tools/cache/shared_informer.go
// minimumResyncPeriod.
const minResync = time.Second

// form converts between the objects of client-go and those of the informer: in converts
// the result of a transform, out an object of the informer.
type form[T informer.Object] struct {
	in  func(any) (T, error)
	out func(T) any
}

// indexersWith are the last two parameters of a Constructor.
type indexersWith struct {
	resync   time.Duration
	indexers cache.Indexers
}

// sharedInformer is a cache.SharedIndexInformer.
type sharedInformer[T informer.Object] struct {
	synced   // when the store has a complete state; done by the goroutine of Run
	settings settings
	form     form[T]
	resync   time.Duration
	below    *informer.Informer[T]
	calls    *sync.WaitGroup // of the source, which can outlive below's Run
	store    *store
	handlers sync.WaitGroup // goroutines that wait until a handler has synced

	// mu guards all below. The informer below is not called under it: it may call back.
	mu            sync.Mutex
	running       context.Context //nolint:containedctx // Run's, passed to the watch error handler; nil before Run
	ended         bool
	failed        cache.WatchErrorHandlerWithContext // nil: client-go's default
	transform     cache.TransformFunc
	registrations map[*registration]struct{}
}

func newSharedInformer[T informer.Object](source informer.Source[T], f form[T], s settings,
	with indexersWith,
) *sharedInformer[T] {
	i := &sharedInformer[T]{
		settings: s, form: f, resync: with.resync, store: newStore(with.indexers), calls: &sync.WaitGroup{},
		synced: newSynced("SharedIndexInformer " + s.name), registrations: map[*registration]struct{}{},
	}
	opts := append(append([]informer.Option(nil), s.informer...), informer.OnError(i.incident))
	i.below = informer.New(source.Transform(i.transformed), opts...)
	i.below.Mirror(i.mirror)
	return i
}

// transformed applies the TransformFunc. All objects get the same one: SetTransform
// returns an error once Run was called.
func (i *sharedInformer[T]) transformed(object T) (T, error) {
	i.mu.Lock()
	transform := i.transform
	i.mu.Unlock()
	if transform == nil {
		return object, nil
	}
	o, err := transform(i.form.out(object))
	if err != nil {
		var none T
		return none, fmt.Errorf("transform: %w", err)
	}
	return i.form.in(o)
}

// mirror updates the store to the informer's state before any handler is called.
func (i *sharedInformer[T]) mirror(update informer.Update[T]) {
	if update.Whole && (update.Changed() > 0 || i.store.foreign()) {
		all := make([]any, 0, update.Len())
		for _, object := range update.All() {
			all = append(all, i.form.out(object))
		}
		i.store.replaceAll(all, toLister(update.RV))
	} else {
		for key, object := range update.Changes() {
			var none T
			if object == none {
				i.store.remove(name(key))
				continue
			}
			i.store.set(i.form.out(object))
		}
	}
	i.store.bookmark(toLister(update.RV))
	switch {
	case !i.HasSynced():
		i.done()
	case update.Whole && i.settings.relists:
		i.repeat(update)
	}
}

// repeat delivers the objects that a re-list found unchanged to every handler.
func (i *sharedInformer[T]) repeat(update informer.Update[T]) {
	changed := make(map[informer.Key]struct{}, update.Changed())
	for key := range update.Changes() {
		changed[key] = struct{}{}
	}
	i.mu.Lock()
	registrations := slices.Collect(maps.Keys(i.registrations))
	i.mu.Unlock()
	for _, r := range registrations {
		for key := range update.All() {
			if _, is := changed[key]; !is {
				r.below.Enqueue(key)
			}
		}
	}
}

// incident passes the error of a request to the watch error handler. client-go does not
// do so for a 410 in a watch, a refused connection and a 429 (reflector.go watch); here
// they can be counted. Neither reports a streaming list that falls back to LIST.
func (i *sharedInformer[T]) incident(in informer.Incident) {
	i.settings.incident(in)
	i.mu.Lock()
	ctx, failed := i.running, i.failed
	i.mu.Unlock()
	err := in.Err
	if err == nil {
		err = errors.New(in.Kind.String())
	}
	if ctx == nil { // the option of a handler is for another type: AddEventHandler returns it
		return
	}
	if in.Handler != "" || in.Kind == informer.Undecodable || in.Kind == informer.Stale {
		utilruntime.HandleErrorWithContext(ctx, err, "Informer incident", "type", i.settings.name, "incident", in.String())
		return
	}
	if in.Kind == informer.NoStreamingList {
		return
	}
	if failed == nil {
		failed = cache.DefaultWatchErrorHandler
	}
	// The handler may ask the reflector for its name.
	failed(ctx, cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, i.store, cache.ReflectorOptions{Name: i.settings.name}),
		err)
}

// Run calls RunWithContext with a context that ends when stop is closed.
func (i *sharedInformer[T]) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs the informer until ctx ends. It can be called once. It returns when
// all its goroutines and all calls of handlers have returned. A call of the ListerWatcher
// that ignores the end of its context is logged after 100 ms and left alone, as in
// client-go: its goroutine ends with it, and its result is dropped.
func (i *sharedInformer[T]) RunWithContext(ctx context.Context) {
	i.mu.Lock()
	before := i.running
	if before == nil {
		i.running = ctx
		for r := range i.registrations {
			i.followLocked(ctx, r)
		}
	}
	i.mu.Unlock()
	if before != nil {
		utilruntime.HandleErrorWithContext(ctx, errStarted, "Run informer", "type", i.settings.name)
		return
	}
	if err := i.below.Run(ctx); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Run informer", "type", i.settings.name)
	}
	if !finished(i.calls) {
		utilruntime.HandleErrorWithContext(ctx, errHangs, "Run informer", "type", i.settings.name)
	}
	i.mu.Lock()
	i.ended = true // from here on no handler is added
	i.mu.Unlock()
	i.handlers.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	for r := range i.registrations {
		select {
		case <-r.below.Synced():
			r.done() // its goroutine may have seen the end first
		default:
		}
		r.end()
	}
}

// finished waits until no call runs, for a moment.
func finished(calls *sync.WaitGroup) bool {
	done := make(chan struct{})
	// It ends with the last call.
	go func() {
		calls.Wait()
		close(done)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// patience is how long Run waits for calls of the ListerWatcher whose context has ended.
const patience = 100 * time.Millisecond

func (i *sharedInformer[T]) stoppedLocked() bool {
	return i.ended || i.running != nil && i.running.Err() != nil
}

// IsStopped reports whether Run's context has ended.
func (i *sharedInformer[T]) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stoppedLocked()
}

// LastSyncResourceVersion returns the resource version of the informer's state.
func (i *sharedInformer[T]) LastSyncResourceVersion() string {
	return toLister(i.below.ResourceVersion())
}

// GetStore returns the cache.
func (i *sharedInformer[T]) GetStore() cache.Store { return i.store }

// GetIndexer returns the cache.
func (i *sharedInformer[T]) GetIndexer() cache.Indexer { return i.store }

// GetController returns the informer as a cache.Controller whose Run does nothing.
func (i *sharedInformer[T]) GetController() cache.Controller { return controller[T]{i} }

// AddIndexers adds indexes, before or during Run.
func (i *sharedInformer[T]) AddIndexers(indexers cache.Indexers) error {
	if i.IsStopped() {
		return errStopped
	}
	return i.store.AddIndexers(indexers)
}

// SetTransform sets the function that transforms each object. It must be called before
// Run.
func (i *sharedInformer[T]) SetTransform(f cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
		return errStarted
	}
	i.transform = f
	return nil
}

// The texts of the last two are client-go's (shared_informer.go): callers match on them.
var (
	errHangs   = errors.New("a call of the ListerWatcher goes on although its context has ended")
	errStarted = errors.New("informer has already started")
	errStopped = errors.New("indexer was not added because it has stopped already")
)

// SetWatchErrorHandler is like SetWatchErrorHandlerWithContext for a function without a
// context.
func (i *sharedInformer[T]) SetWatchErrorHandler(f cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { f(r, err) })
}

// SetWatchErrorHandlerWithContext sets the function that gets the errors of requests. It
// must be called before Run.
func (i *sharedInformer[T]) SetWatchErrorHandlerWithContext(f cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
		return errStarted
	}
	i.failed = f
	return nil
}

// name returns a key in client-go's form.
func name(k informer.Key) string {
	return cache.ObjectName{Namespace: k.Namespace, Name: k.Name}.String()
}

// controller is what GetController returns.
type controller[T informer.Object] struct{ *sharedInformer[T] }

// Run does nothing; run the informer instead.
func (controller[T]) Run(<-chan struct{}) {}

// RunWithContext does nothing.
func (controller[T]) RunWithContext(context.Context) {}
