package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/kube"
)

const (
	// progressEvery is the time between two requests for upstream's progress, at least: 20
	// a second.
	progressEvery = 50 * time.Millisecond
	// progressWithin bounds such a request.
	progressWithin = 10 * time.Second
	// followWithin is how long the watch may take to deliver what upstream has, before a
	// proof is looked for that it has delivered all. A watch that has something to deliver
	// takes less.
	followWithin = 50 * time.Millisecond
)

// freshness finds out whether a collection has everything that upstream had when a reader
// came. Readers that wait share the requests.
type freshness struct {
	collection *collection

	// Each holds one token: a proof of that kind is wanted.
	compare, probe chan struct{}
	// quiet says that the last reader needed a proof: the next one looks for it at once.
	quiet atomic.Bool

	// mu guards what follows.
	mu     sync.Mutex
	next   *progress     // the request that has not begun; readers that come now may use it
	began  time.Time     // when the last one began
	tried  chan struct{} // closed when the next proof is found, or was not found; nil: nobody waits
	failed error         // of the last comparison
}

func newFreshness(c *collection) *freshness {
	return &freshness{collection: c, compare: make(chan struct{}, 1), probe: make(chan struct{}, 1)}
}

// progress is one request that is shared by readers of one history.
type progress struct {
	history *history
	done    chan struct{} // closed when err is set
	err     error
}

// wait blocks until readers see everything that upstream had when it was called. Errors: 503 if
// upstream cannot be asked, 504 if the mirror does not get there, ctx's cause.
func (f *freshness) wait(ctx context.Context, h *history) error {
	p := f.join(ctx, h)
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join returns the next request, and sees to it that it is made.
func (f *freshness) join(ctx context.Context, h *history) *progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next != nil && f.next.history == h {
		return f.next
	}
	p := &progress{history: h, done: make(chan struct{})}
	f.next = p
	pause := time.Until(f.began.Add(progressEvery))
	// It ends within progressWithin and aheadFor; the request of one reader is that of others.
	ctx = context.WithoutCancel(ctx)
	time.AfterFunc(max(0, pause), func() {
		f.mu.Lock()
		if f.next == p {
			f.next = nil
		}
		f.began = time.Now()
		f.mu.Unlock()
		p.err = f.collection.catchUp(ctx, h)
		close(p.done)
	})
	return p
}

// catchUp asks upstream how far it is, and waits until readers see a state that is as new.
func (c *collection) catchUp(ctx context.Context, h *history) error {
	ctx, cancel := context.WithTimeout(ctx, progressWithin)
	defer cancel()
	c.relay.metrics.upstream.WithLabelValues(c.name, "progress").Inc()
	meta, err := c.relay.metadata.List(ctx, c.of(), metav1.ListOptions{Limit: 1}, func([]byte) error { return nil })
	if err != nil {
		return unreachable(err)
	}
	upstream, err := kube.ParseResourceVersion(meta.ResourceVersion)
	if err != nil || upstream == 0 {
		return kube.Internal(fmt.Errorf("upstream's list of %s has the resourceVersion %q", c.name, meta.ResourceVersion))
	}
	at, has := h.has(upstream)
	if !has && !c.fresh.quiet.Load() {
		soon, stop := context.WithTimeout(ctx, followWithin)
		_ = h.log.Wait(soon, upstream) // has says what came of it
		stop()
		at, has = h.has(upstream)
	}
	if !has {
		if at, err = c.fresh.proven(ctx, h, upstream, c.fresh.compare, c.fresh.probe); err != nil {
			return err
		}
	}
	c.fresh.quiet.Store(h.log.Reached() < upstream)
	// The log knows of a change before readers see it.
	_, err = h.cached.Cache.WaitFresh(ctx, kube.ResourceVersion(at)) //nolint:gosec // positions are not negative
	return err
}

// reached returns the newest position if the mirror has reached a resourceVersion of upstream.
func (h *history) reached(rv kube.ResourceVersion) (position int64, has bool) {
	return h.log.Newest(), h.log.Reached() >= rv
}

// proven waits until the mirror has a resourceVersion of upstream: by its watch, or by a proof of
// one of the kinds that are asked for. It returns the position. Errors: 503 if upstream cannot be
// asked, 504 if there is no proof within 3 s, ctx's cause.
func (f *freshness) proven(ctx context.Context, h *history, rv kube.ResourceVersion, kinds ...chan struct{}) (int64, error) {
	enough := h.reached
	if slices.Contains(kinds, f.compare) {
		enough = h.has
	}
	limited, cancel := context.WithTimeout(ctx, aheadFor)
	defer cancel()
	reached := make(chan struct{})
	go func() { // it ends with limited
		defer close(reached)
		_ = h.log.Wait(limited, rv) // has says what came of it
	}()
	for {
		tried := f.attempt()
		if at, has := enough(rv); has {
			return at, nil
		}
		for _, kind := range kinds {
			select {
			case kind <- struct{}{}:
			default: // it is wanted already
			}
		}
		select {
		case <-tried:
		case <-reached:
		case <-limited.Done():
		}
		if at, has := enough(rv); has {
			return at, nil
		}
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case limited.Err() != nil:
			return 0, &kube.TooLargeResourceVersionError{Requested: rv, Current: h.log.Reached()}
		}
		if err := f.failure(); err != nil && len(kinds) > 1 {
			return 0, unreachable(err)
		}
	}
}

// attempt returns what is closed after the next try of a proof.
func (f *freshness) attempt() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried == nil {
		f.tried = make(chan struct{})
	}
	return f.tried
}

func (f *freshness) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// end wakes who waits for a proof.
func (f *freshness) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tried != nil {
		close(f.tried)
		f.tried = nil
	}
}

// unreachable is the error for a reader who wants the most recent state, when upstream does not
// say what it is.
func unreachable(err error) error {
	return kube.Unavailable(fmt.Sprintf("the most recent state is not known, because upstream does not answer: %v; resourceVersion=0 asks for the last known state", err), time.Second)
}
