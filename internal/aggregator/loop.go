package aggregator

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// loop does something about names that are due: at once for those that are added, and again later as it finds. What is
// added while it does not run is forgotten: run begins with all that matter then.
type loop struct {
	// mu guards queue.
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[string] // nil: it does not run
}

// how is what a loop does.
type how struct {
	workers     int
	first, last time.Duration // the time before it is tried again after a failure: at first, and at most
	names       []string      // that are due at the beginning
	// do does it, and returns after which time it is due again; 0: when it is added.
	do func(ctx context.Context, name string) (again time.Duration, err error)
}

// add makes a name due. It does not block.
func (l *loop) add(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue != nil {
		l.queue.Add(name)
	}
}

// run works until ctx ends, which is no error. It can be called again when it has returned.
func (l *loop) run(ctx context.Context, h how) error {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](h.first, h.last))
	l.mu.Lock()
	l.queue = queue
	l.mu.Unlock()
	for _, name := range h.names {
		queue.Add(name)
	}
	var wg sync.WaitGroup
	for range h.workers {
		wg.Go(func() { // it is run's, and ends when the queue shuts down
			for work(ctx, queue, h) {
			}
		})
	}
	<-ctx.Done()
	l.mu.Lock()
	l.queue = nil
	l.mu.Unlock()
	queue.ShutDown()
	wg.Wait()
	return nil
}

// work does what is due next, and reports whether there may be more.
func work(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], h how) bool {
	name, over := queue.Get()
	if over || ctx.Err() != nil {
		return false
	}
	defer queue.Done(name)
	again, err := h.do(ctx, name)
	switch {
	case err != nil:
		queue.AddRateLimited(name)
	default:
		queue.Forget(name)
		if again > 0 {
			queue.AddAfter(name, again)
		}
	}
	return true
}
