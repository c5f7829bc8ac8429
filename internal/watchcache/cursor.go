package watchcache

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Bounds of the result of one call of Next, and of what is read from History for it. A
// single larger event may exceed the byte limit. What does not fit into a batch is read
// again: a slow reader keeps nothing but its position.
const (
	maxBatchEvents = 256
	maxBatchBytes  = 1 << 20
)

// idleBatchEvents is how much room a cursor keeps at most while it waits.
const idleBatchEvents = 4

// ErrClosed is returned by Next after Close.
var ErrClosed = errors.New("cursor is closed")

// Cursor reads the changes of a selection in order, each once. It is used by one
// goroutine at a time, except Close. It is a wire.Watch.
type Cursor struct {
	cache *Cache
	sel   Selection
	start kube.ResourceVersion
	pos   kube.ResourceVersion // everything up to here was considered and returned

	until func() bool // says that the stream has ended; nil: never
	wait  waiter

	done     atomic.Uint64 // everything up to here was returned before the last call of Next
	progress progress      // guarded by index.mu

	batch      []wire.WatchEvent
	entries    []*Entry           // those of batch, if the selection has Previous
	roomy      *[]wire.WatchEvent // the memory of batch, when it is the cache's
	batchBytes int
	failed     error // what ended the cursor
	closed     atomic.Bool
}

var _ wire.Watch = (*Cursor)(nil)

// CursorAfter returns a cursor over the changes of the selection after rv, to be
// closed by the caller. A future rv is allowed: then there are no events until the
// resource has passed it. It asks History whether the changes after rv can still be
// read, even if memory has them, so that an expired rv fails here. Errors:
// *kube.ExpiredError, ctx's cause, and errors of History.
func (c *Cache) CursorAfter(ctx context.Context, rv kube.ResourceVersion, sel Selection) (*Cursor, error) {
	if err := c.check(ctx, rv, kube.ExpiredWatch); err != nil {
		return nil, err
	}
	c.cursors.Add(1)
	k := &Cursor{cache: c, sel: sel, start: rv, pos: rv}
	k.wait = waiter{place: placeOf(&k.sel), sel: &k.sel, woken: make(chan struct{}, 1)}
	k.done.Store(uint64(rv))
	c.waiting.opened(k)
	return k, nil
}

// Until makes Next return io.EOF, after all available events, once ended returns
// true. Next calls ended whenever there is nothing left to read, and again after
// Cache.Interrupt. Until must be called before the first Next.
func (k *Cursor) Until(ended func() bool) { k.until = ended }

// Next blocks until there are events and returns them in order, at most 256 or
// 1 MiB of objects, except that those of one resourceVersion come together. The slice
// belongs to the caller until the next call, the objects of the events are shared. Errors:
// *kube.ExpiredError after all earlier events were returned, or because the cursor began where
// a hole turned out to be; errors of History; ErrClosed; io.EOF after Cache.End or Until: after
// these there are no more events. After ctx's cause the cursor can still be used.
func (k *Cursor) Next(ctx context.Context) ([]wire.WatchEvent, error) {
	k.reset()
	k.done.Store(uint64(k.pos))
	for {
		epoch := k.cache.waiting.epoch.Load() // before the state: see enter
		switch {
		case k.closed.Load():
			return nil, ErrClosed
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case k.failed != nil:
			return nil, k.failed
		}
		st, rv := k.cache.view()
		if h := st.hole(k.start); h != nil {
			return nil, k.fail(h.expired(k.start, kube.ExpiredWatch)) // it became known after CursorAfter
		}
		caughtUp := k.pos >= st.log.gone
		if caughtUp {
			k.readMemory(st, rv)
		} else if err := k.readHistory(ctx, st.log.gone); err != nil {
			return nil, err
		}
		if len(k.batch) > 0 {
			return k.batch, nil
		}
		if !caughtUp {
			continue
		}
		if st.ended != 0 && k.pos >= st.ended || k.until != nil && k.until() {
			return nil, k.fail(io.EOF)
		}
		if err := k.sleep(ctx, epoch); err != nil {
			return nil, err
		}
	}
}

// reset forgets the last batch, so that a cursor that waits pins no objects.
func (k *Cursor) reset() {
	clear(k.batch)
	k.batch, k.batchBytes = k.batch[:0], 0
	k.entries = nil
}

// Entries returns the entries of the events that the last call of Next returned. The selection
// has Previous, so that each has the object before. The slice belongs to the caller.
func (k *Cursor) Entries() []*Entry { return k.entries }

// sleep blocks until there may be something new since epoch.
func (k *Cursor) sleep(ctx context.Context, epoch uint64) error {
	if k.roomy != nil {
		k.cache.batches.Put(k.roomy)
		k.batch, k.roomy = nil, nil
	}
	k.wait.pos = k.pos
	if !k.cache.waiting.enter(&k.wait, epoch) {
		return nil
	}
	select {
	case <-k.wait.woken:
		k.advance(k.wait.hit - min(k.wait.hit, 1))
		return nil
	case <-ctx.Done():
	}
	if through, waited := k.cache.waiting.leave(&k.wait); waited {
		k.advance(through)
	} else {
		<-k.wait.woken // it is on its way
		k.advance(k.wait.hit - min(k.wait.hit, 1))
	}
	return context.Cause(ctx)
}

// readMemory considers the entries of st after the position, which reaches back
// that far. rv is the resourceVersion of st.
func (k *Cursor) readMemory(st *state, rv kube.ResourceVersion) {
	checkWindow(st.log, k.pos)
	for e := range st.log.after(k.pos) {
		if !k.consider(e) {
			return
		}
	}
	k.advance(rv)
}

// readHistory considers the next entries up to upTo from History.
func (k *Cursor) readHistory(ctx context.Context, upTo kube.ResourceVersion) error {
	entries, through, err := k.cache.read(ctx, Range{After: k.pos, Since: k.start, UpTo: upTo, Selection: &k.sel})
	for _, e := range entries {
		if !k.consider(e) {
			return nil // an error will come again when this was read
		}
	}
	k.advance(through)
	var expired *kube.ExpiredError
	switch {
	case err == nil:
		return nil
	case len(k.batch) > 0:
		return nil // the next call meets it again
	case ctx.Err() != nil && !errors.As(err, &expired):
		return context.Cause(ctx)
	}
	return k.fail(err)
}

// consider puts e into the batch if the selection matches it. It returns false,
// and leaves the position before e, when the batch has no room for it. There is always room
// for another entry of the same RV: the position cannot be between them.
func (k *Cursor) consider(e *Entry) bool {
	t := k.sel.transition(e)
	if t == 0 {
		k.pos = e.RV
		return true
	}
	if len(k.batch) >= maxBatchEvents && e.RV != k.pos {
		return false
	}
	event := e.event(t, &k.sel)
	size := event.Object.Size()
	if len(k.batch) > 0 && k.batchBytes+size > maxBatchBytes && e.RV != k.pos {
		return false
	}
	checkEvent(event, e, &k.sel, k.pos)
	if len(k.batch) == cap(k.batch) && len(k.batch) >= idleBatchEvents {
		k.grow()
	}
	k.batch = append(k.batch, event)
	if k.sel.Previous {
		k.entries = append(k.entries, e)
	}
	k.batchBytes += size
	k.pos = e.RV
	return true
}

// grow moves the batch into memory that has room for all that a batch can have, except one with
// more entries of one RV.
func (k *Cursor) grow() {
	if k.roomy != nil {
		larger := append(make([]wire.WatchEvent, 0, 2*len(k.batch)), k.batch...)
		clear(k.batch) // the cache's memory pins no objects
		k.batch = larger
		return
	}
	k.roomy = k.cache.batches.Get().(*[]wire.WatchEvent) //nolint:forcetypeassert // the pool holds nothing else
	k.batch = append(*k.roomy, k.batch...)
}

func (k *Cursor) advance(rv kube.ResourceVersion) { k.pos = max(k.pos, rv) }

func (k *Cursor) fail(err error) error {
	k.failed = err
	return err
}

// Position returns the resourceVersion up to which everything was considered and
// returned: a bookmark with it is correct, and a watcher that resumes from it misses
// nothing. It never decreases, and stays at the beginning of a hole while the difference
// is being returned. It advances in memory over entries outside of the
// selection, up to the first one inside; it does not read History, so a cursor
// behind the window does not advance until Next.
func (k *Cursor) Position() kube.ResourceVersion {
	st, rv := k.cache.view()
	if st.hole(k.start) != nil {
		return k.start // Next fails
	}
	if k.pos >= st.log.gone {
		was := k.pos
		k.pass(st, rv)
		checkPosition(positions{start: k.start, before: was, now: k.pos, state: rv})
	}
	if h := st.hole(k.pos); h != nil {
		return h.From
	}
	return k.pos
}

// pass advances over the entries of st that the selection does not match.
func (k *Cursor) pass(st *state, rv kube.ResourceVersion) {
	for e := range st.log.after(k.pos) {
		if k.sel.transition(e) != 0 {
			k.advance(e.RV - 1)
			return
		}
	}
	k.advance(rv)
}

// Close releases the cursor. It does not end a Next in progress: cancel its
// context. It is safe to call more than once and from any goroutine.
func (k *Cursor) Close() {
	if !k.closed.Swap(true) {
		k.cache.cursors.Add(-1)
		k.cache.waiting.closed(k)
	}
}
