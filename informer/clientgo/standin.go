package clientgo

import (
	"context"
	"errors"
	"fmt"
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

// form is how objects are held in the informer: in makes of what a transform
// returned what is held, out the reverse.
type form[T informer.Object] struct {
	in  func(any) (T, error)
	out func(T) any
}

// indexersWith are the last two parameters of a Constructor.
type indexersWith struct {
	resync   time.Duration
	indexers cache.Indexers
}

// standIn is a cache.SharedIndexInformer.
type standIn[T informer.Object] struct {
	settings settings
	form     form[T]
	resync   time.Duration
	below    *informer.Informer[T]
	store    *store
	synced   chan struct{} // closed by the goroutine of Run when the store has a complete state

	// mu guards all below. The informer's own locks may be taken under it.
	mu            sync.Mutex
	running       context.Context //nolint:containedctx // Run's own, for handlers that want it; nil before Run
	ended         bool
	failed        cache.WatchErrorHandlerWithContext // nil: client-go's
	transform     cache.TransformFunc
	registrations map[*registration]struct{}
}

func newStandIn[T informer.Object](source informer.Source[T], f form[T], s settings, with indexersWith) *standIn[T] {
	i := &standIn[T]{
		settings: s, form: f, resync: with.resync, store: newStore(with.indexers), synced: make(chan struct{}),
		registrations: map[*registration]struct{}{},
	}
	opts := append(append([]informer.Option(nil), s.informer...), informer.OnError(i.incident))
	i.below = informer.New(source.Transform(i.transformed), opts...)
	i.below.Mirror(i.mirror)
	return i
}

// transformed applies the TransformFunc. SetTransform is refused once Run began, so
// that all objects go through the same one.
func (i *standIn[T]) transformed(object T) (T, error) {
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

// mirror brings the store to the informer's state, before any handler is called.
func (i *standIn[T]) mirror(turn informer.Turn[T]) {
	if turn.Whole && (turn.Changed() > 0 || i.store.foreign()) {
		all := make([]any, 0, turn.Len())
		for _, object := range turn.All() {
			all = append(all, i.form.out(object))
		}
		i.store.replaceAll(all, turn.RV)
	} else {
		for key, object := range turn.Changes() {
			var none T
			if object == none {
				i.store.remove(name(key))
				continue
			}
			i.store.set(i.form.out(object))
		}
	}
	i.store.Bookmark(turn.RV)
	select {
	case <-i.synced:
		if turn.Whole && i.settings.relists {
			i.repeat(turn)
		}
	default:
		close(i.synced)
	}
}

// repeat hands every handler the objects that a re-list found unchanged.
func (i *standIn[T]) repeat(turn informer.Turn[T]) {
	changed := make(map[informer.Key]struct{}, turn.Changed())
	for key := range turn.Changes() {
		changed[key] = struct{}{}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for r := range i.registrations {
		for key := range turn.All() {
			if _, is := changed[key]; !is {
				r.below.Enqueue(key)
			}
		}
	}
}

// incident tells the error handler what a request failed with. client-go tells it
// less: nothing of a 410 in a watch, of refused connections and of 429 (reflector.go
// watch), so that nobody can count them.
func (i *standIn[T]) incident(in informer.Incident) {
	i.settings.incident(in)
	i.mu.Lock()
	ctx, failed := i.running, i.failed
	i.mu.Unlock()
	err := in.Err
	if err == nil {
		err = errors.New(in.Kind.String())
	}
	if in.Handler != "" || in.Kind == informer.Undecodable || in.Kind == informer.Stale {
		utilruntime.HandleErrorWithContext(ctx, err, "Informer incident", "type", i.settings.name, "incident", in.String())
		return
	}
	if failed == nil {
		failed = cache.DefaultWatchErrorHandler
	}
	// It gets a reflector because it may ask for its name.
	failed(ctx, cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, i.store, cache.ReflectorOptions{Name: i.settings.name}), err)
}

// Run is RunWithContext for a channel.
func (i *standIn[T]) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs until ctx ends, once.
func (i *standIn[T]) RunWithContext(ctx context.Context) {
	i.mu.Lock()
	before := i.running
	if before == nil {
		i.running = ctx
	}
	i.mu.Unlock()
	if before != nil {
		utilruntime.HandleErrorWithContext(ctx, errors.New("the informer has started already"), "Run informer", "type", i.settings.name)
		return
	}
	if err := i.below.Run(ctx); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Run informer", "type", i.settings.name)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ended = true
	for r := range i.registrations {
		r.end()
	}
}

func (i *standIn[T]) stoppedLocked() bool {
	return i.ended || i.running != nil && i.running.Err() != nil
}

// IsStopped says whether Run's context has ended.
func (i *standIn[T]) IsStopped() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stoppedLocked()
}

// HasSynced says whether the store has held a complete state.
func (i *standIn[T]) HasSynced() bool { return cache.IsDone(i.HasSyncedChecker()) }

// HasSyncedChecker is HasSynced to wait for.
func (i *standIn[T]) HasSyncedChecker() cache.DoneChecker {
	return checker{name: "SharedIndexInformer " + i.settings.name, done: i.synced}
}

// LastSyncResourceVersion returns the version of the state that handlers are told.
func (i *standIn[T]) LastSyncResourceVersion() string { return i.below.ResourceVersion() }

// GetStore returns the cache.
func (i *standIn[T]) GetStore() cache.Store { return i.store }

// GetIndexer returns the cache.
func (i *standIn[T]) GetIndexer() cache.Indexer { return i.store }

// GetController returns a view of the informer. Its Run does nothing.
func (i *standIn[T]) GetController() cache.Controller { return controller[T]{i} }

// AddIndexers adds indices, also while it runs.
func (i *standIn[T]) AddIndexers(indexers cache.Indexers) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stoppedLocked() {
		return errors.New("indexers were not added: the informer has stopped")
	}
	return i.store.AddIndexers(indexers)
}

// SetTransform sets what each object goes through, once, before Run.
func (i *standIn[T]) SetTransform(f cache.TransformFunc) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
		return errStarted
	}
	i.transform = f
	return nil
}

var errStarted = errors.New("the informer has started already")

// SetWatchErrorHandler is SetWatchErrorHandlerWithContext without the context.
func (i *standIn[T]) SetWatchErrorHandler(f cache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { f(r, err) })
}

// SetWatchErrorHandlerWithContext sets who is told of failed requests, before Run.
func (i *standIn[T]) SetWatchErrorHandlerWithContext(f cache.WatchErrorHandlerWithContext) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.running != nil {
		return errStarted
	}
	i.failed = f
	return nil
}

// name is a key as client-go writes it.
func name(k informer.Key) string {
	return cache.ObjectName{Namespace: k.Namespace, Name: k.Name}.String()
}

// checker is a cache.DoneChecker.
type checker struct {
	name string
	done <-chan struct{}
}

// Name says what is waited for.
func (c checker) Name() string { return c.name }

// Done is closed when it is there.
func (c checker) Done() <-chan struct{} { return c.done }

// controller is what GetController returns.
type controller[T informer.Object] struct{ *standIn[T] }

// Run does nothing: the informer is run, not its controller.
func (controller[T]) Run(<-chan struct{}) {}

// RunWithContext does nothing.
func (controller[T]) RunWithContext(context.Context) {}
