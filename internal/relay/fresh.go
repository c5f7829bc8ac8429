package relay

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

const (
	// progressEvery is the time between two requests for upstream's progress, at least: 20
	// a second.
	progressEvery = 50 * time.Millisecond
	// progressWithin bounds such a request.
	progressWithin = 10 * time.Second
	// deliverWithin is how long the watch may take for what upstream is known to have.
	deliverWithin = time.Second
	// followWithin is how long the watch may take to deliver what upstream has, before a
	// proof is looked for that it has delivered all. A watch that has something to deliver
	// takes less.
	followWithin = 50 * time.Millisecond
)

// freshness finds out whether a collection has everything that upstream had when a reader
// came. Readers that wait share the requests.
type freshness struct {
	collection *collection
	account    account

	// Each holds one token: a check, or a proof of that kind, is wanted.
	ask, compare, probe chan struct{}
	// passes has a token for each request that upstream answers now because the relay could not
	// find out in time whether the mirror is up to date.
	passes chan struct{}
	// quiet says that the last check found the mirror behind: the next one does not wait for the
	// watch, which has nothing to deliver.
	quiet atomic.Bool
	// passed counts the objects of reads that were passed on since the last comparison.
	passed atomic.Int64

	// mu guards what follows.
	mu     sync.Mutex
	next   *check        // has not begun; readers that come now may use it
	over   bool          // no check begins any more
	tried  chan struct{} // closed when the next proof is found, or was not found; nil: nobody waits
	failed error         // of the last comparison
}

func newFreshness(c *collection) *freshness {
	return &freshness{
		collection: c, ask: make(chan struct{}, 1), compare: make(chan struct{}, 1), probe: make(chan struct{}, 1),
		passes: make(chan struct{}, passesAtOnce),
	}
}

// check is what readers share who came before it began: a request that says how far upstream is, and
// perhaps another one that shows that the mirror is as far.
type check struct {
	size int           // objects of the reads that wait for it; the mutex of freshness guards it
	done chan struct{} // closed when what follows is set
	rv   kube.ResourceVersion
	err  error
}

const (
	// passesAtOnce bounds how many reads of one resource are passed on at the same time for
	// that reason.
	passesAtOnce = 16
	// smallRead is the most objects of a read that is passed on without waiting for a proof: it
	// costs upstream little more than the question how far it is.
	smallRead = 100
)

// read is what a reader of the most recent state wants.
type read struct {
	size int  // about how many objects
	list bool // can be passed on
}

// wait blocks until readers of a history see everything that upstream had when it was called. Errors: 503 if upstream cannot be
// asked, 504 if the mirror does not get there, or a FallbackError in its place, ctx's cause.
func (f *freshness) wait(ctx context.Context, h *history, of read) (err error) {
	ctx, span := tracing.Start(ctx, "Wait until the mirror is fresh")
	defer func() { span.End(err) }()
	if of.list && f.cheaperAtUpstream(h, of.size) && !f.collection.mayBeStale() {
		if err := f.pass(of.size); err != nil {
			return err
		}
	}
	p := f.join(of.size)
	select {
	case <-p.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.err != nil {
		return p.err
	}
	at, has := h.has(p.rv)
	if !has {
		if at, err = f.behind(ctx, h, p.rv, of); err != nil {
			return err
		}
	}
	// The log knows of a change before readers see it.
	_, err = h.cached.Cache.WaitFresh(ctx, kube.ResourceVersion(at)) //nolint:gosec // positions are not negative
	return err
}

// cheaperAtUpstream reports whether a read of a size is passed on without asking upstream how far it is:
// the answer would hardly help, or there is no request left for what would be needed next.
func (f *freshness) cheaperAtUpstream(h *history, size int) bool {
	all := h.cached.Cache.Stats().Objects
	if f.account.affords(2) && (size > smallRead || !f.quiet.Load()) || size > smallRead && all > comparePage {
		return false
	}
	return !f.comparable(all, size)
}

// comparable reports whether a comparison of all objects costs upstream no more than a read of some of
// them, with those that were passed on before it: it lists their metadata.
func (f *freshness) comparable(all, some int) bool {
	const metadata = 4 // times smaller, at least
	return all <= smallRead || all <= comparePage && all <= metadata*(some+int(f.passed.Load()))
}

// upstreamReached reports whether upstream has reached a resourceVersion, by a request that began after
// the call. Errors: 503 if upstream cannot be asked, ctx's cause.
func (f *freshness) upstreamReached(ctx context.Context, rv kube.ResourceVersion) (bool, error) {
	p := f.join(0)
	select {
	case <-p.done:
		return p.err == nil && p.rv >= rv, p.err
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// behind is wait for a history of which it is not known whether it has all of upstream's rv.
func (f *freshness) behind(ctx context.Context, h *history, rv kube.ResourceVersion, of read) (int64, error) {
	if of.list && (of.size <= smallRead || h.cached.Cache.Stats().Objects <= comparePage) {
		if err := f.pass(of.size); err != nil {
			return 0, err
		}
	}
	at, err := f.proven(ctx, h, rv, f.compare, f.probe)
	if err == nil || !of.list || ctx.Err() != nil {
		return at, err
	}
	select {
	case f.passes <- struct{}{}:
		return 0, f.passing()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// pass returns a FallbackError if a read of a size can be passed on at once, and nil if so many were that
// they are a load on upstream.
func (f *freshness) pass(size int) error {
	select {
	case f.passes <- struct{}{}:
	default:
		return nil
	}
	f.passed.Add(int64(size))
	if f.account.affords(2) { // the read itself is one
		want(f.probe) // the next reader may be served
	}
	return f.passing()
}

// passing returns the error for a read that has taken its token of passes.
func (f *freshness) passing() error {
	f.account.spend(1)
	f.collection.relay.metrics.passed.WithLabelValues(f.collection.name).Inc()
	return &apiserver.FallbackError{
		Why: "it is not known in time whether the mirror is up to date", Release: func() { <-f.passes },
	}
}

// errOver is for readers of a collection that has just ended.
var errOver = &apiserver.FallbackError{Why: "the resource is no longer mirrored"}

// join returns the next check for a read of a size, and sees to it that it is made.
func (f *freshness) join(size int) *check {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = &check{done: make(chan struct{})}
		if f.over {
			f.next.end(0, errOver)
		}
		want(f.ask)
	}
	f.next.size += size
	return f.next
}

// want puts a token, unless there is one.
func want(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

func (p *check) end(rv kube.ResourceVersion, err error) {
	p.rv, p.err = rv, err
	close(p.done)
}

// asking asks upstream how far it is when readers want to know, until ctx ends. A request does not
// wait for the one before, which may be slow.
func (f *freshness) asking(ctx context.Context) {
	var requests sync.WaitGroup
	defer requests.Wait()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.over = true; f.next != nil {
			f.next.end(0, errOver)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.ask:
		}
		f.mu.Lock()
		p := f.next // there is one: its token was taken
		f.next = nil
		f.mu.Unlock()
		requests.Go(func() { p.end(f.collection.check(ctx, p)) }) // it ends with ctx
		if pause(ctx, progressEvery) != nil {
			return
		}
	}
}

// check asks upstream how far it is, and finds out whether the mirror is as far. It makes a second
// request only if readers have sent more requests than upstream got.
func (c *collection) check(ctx context.Context, p *check) (kube.ResourceVersion, error) {
	h, f := c.current.Load(), c.fresh
	cheap := h != nil && f.comparable(h.cached.Cache.Stats().Objects, p.size)
	if cheap && (f.quiet.Load() || !f.account.affords(2)) {
		return c.compare(ctx, h)
	}
	upstream, err := c.progress(ctx)
	if err != nil || h == nil {
		return upstream, err
	}
	_, has := h.has(upstream)
	if !has {
		soon, stop := context.WithTimeout(ctx, followWithin)
		has = h.log.Wait(soon, upstream) == nil
		stop()
	}
	f.quiet.Store(!has)
	if has || !cheap || !f.account.affords(1) {
		return upstream, nil
	}
	return c.compare(ctx, h)
}

// compare is check by a comparison. Where upstream has something else than the mirror, its watch gets a
// moment to deliver it.
func (c *collection) compare(ctx context.Context, h *history) (kube.ResourceVersion, error) {
	seen, err := c.versions(ctx)
	if ctx.Err() != nil {
		return 0, errOver
	}
	if err != nil {
		return 0, unreachable(err)
	}
	_, known := h.has(seen.through)
	c.fresh.quiet.Store(!known)
	limited, stop := context.WithTimeout(ctx, deliverWithin)
	defer stop()
	for !known && !seen.prove(h) {
		if _, has := h.has(seen.through); has ||
			h.log.Wait(limited, max(h.log.Reached()+1, min(seen.last, seen.through))) != nil {
			break
		}
	}
	return seen.through, nil
}

// progress asks upstream how far it is.
func (c *collection) progress(ctx context.Context) (kube.ResourceVersion, error) {
	limited, cancel := context.WithTimeout(ctx, progressWithin)
	defer cancel()
	c.asks("progress")
	meta, err := c.relay.metadata.List(limited, c.of(), metav1.ListOptions{Limit: 1}, func([]byte) error { return nil })
	if ctx.Err() != nil {
		return 0, errOver
	}
	if err != nil {
		return 0, unreachable(err)
	}
	upstream, err := kube.ParseResourceVersion(meta.ResourceVersion)
	if err != nil || upstream == 0 {
		return 0, wire.Internal(fmt.Errorf("upstream's list of %s has the resourceVersion %q", c.name, meta.ResourceVersion))
	}
	return upstream, nil
}

// reached returns the newest position if the mirror has reached a resourceVersion of upstream.
func (h *history) reached(rv kube.ResourceVersion) (position int64, has bool) {
	return h.log.Newest(), h.log.Reached() >= rv
}

// proven waits until the mirror has a resourceVersion of upstream: by its watch, or by a proof of
// one of the kinds that are asked for. It returns the position. Errors: 503 if upstream cannot be
// asked, 504 if there is no proof within 3 s, ctx's cause.
func (f *freshness) proven(ctx context.Context, h *history, rv kube.ResourceVersion, these ...chan struct{}) (int64, error) {
	enough := h.reached
	if slices.Contains(these, f.compare) {
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
		for _, kind := range these {
			want(kind)
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
		if err := f.failure(); err != nil && len(these) > 1 {
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
	e := wire.Unavailable(
		fmt.Sprintf(
			"the most recent state is not known, because upstream does not answer: %v; resourceVersion=0 asks for "+
				"the last known state", err), time.Second)
	e.Cause = &awayError{err}
	return e
}

// awayError says that upstream did not answer.
type awayError struct{ cause error }

func (e *awayError) Error() string { return "upstream does not answer: " + e.cause.Error() }
func (e *awayError) Unwrap() error { return e.cause }

// refused reports that upstream has answered: it refuses the relay.
func (e *awayError) refused() bool {
	outcome := kube.Classify(e.cause)
	return outcome == kube.OutcomeUnauthorized || outcome == kube.OutcomeForbidden || outcome == kube.OutcomeNotFound
}
