package queue

import (
	"container/heap"
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
)

// Start runs the workers through spawn until ctx ends or the queue is stopped.
func (q *Queue[T]) Start(ctx context.Context, spawn func(func())) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped != nil || ctx.Err() != nil {
		return
	}
	ctx, q.cancel = context.WithCancel(ctx)
	q.workers = q.opts.Workers
	q.quiet = make(chan struct{})
	for range q.opts.Workers {
		// The owner of spawn waits for them; they end with ctx or with Stop.
		spawn(func() { q.work(ctx) })
	}
}

func (q *Queue[T]) work(ctx context.Context) {
	defer q.leave()
	for {
		t, more := q.take(ctx)
		if !more {
			return
		}
		err := q.call(ctx, &t)
		q.finish(ctx, t, err)
	}
}

// Pull replaces the workers: it calls yield with each delivery, in the caller's goroutine,
// until ctx ends, the queue is stopped, or yield returns false. A delivery counts as
// handled when yield returns true. Only one Pull may run.
func (q *Queue[T]) Pull(ctx context.Context, yield func(Delivery[T]) bool) {
	for {
		t, more := q.take(ctx)
		if !more {
			return
		}
		d, deliver := q.filter.view(&t)
		if deliver && !yield(d) {
			return
		}
		q.finish(ctx, t, nil)
	}
}

// task is what a worker is working on.
type task[T handle.Object] struct {
	item        *item[T]
	pending     pending[T]
	delivery    Delivery[T]
	seen, shown handle.Handle[T] // the item's
	owes        bool             // the item's
	begun       bool             // the handler was called, with delivery
}

func (q *Queue[T]) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.workers--
	if q.workers == 0 {
		q.cancel()
		q.cancel = nil
		close(q.quiet)
	}
}

// take blocks until there is a key to handle. more is false if ctx ended or the queue is
// stopped.
func (q *Queue[T]) take(ctx context.Context) (t task[T], more bool) {
	for ctx.Err() == nil {
		q.mu.Lock()
		if q.stopped != nil {
			q.mu.Unlock()
			return t, false
		}
		if it := q.popLocked(); it != nil {
			t = q.beginLocked(it)
			q.mu.Unlock()
			return t, true
		}
		wake := q.wake
		var due time.Time
		if len(q.delayed) > 0 {
			due = q.delayed[0].work.due
		}
		q.idle++
		q.mu.Unlock()
		q.pause(ctx, wake, due)
		q.mu.Lock()
		q.idle--
		q.mu.Unlock()
	}
	return t, false
}

// pause waits for wake, for due if it is a time, or for the end.
func (q *Queue[T]) pause(ctx context.Context, wake <-chan struct{}, due time.Time) {
	var elapsed <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-ctx.Done():
	case <-q.done:
	case <-wake:
	case <-elapsed:
	}
}

// popLocked removes the next ready item; nil: there is none.
func (q *Queue[T]) popLocked() *item[T] {
	if len(q.delayed) > 0 {
		now := time.Now()
		for len(q.delayed) > 0 && !q.delayed[0].work.due.After(now) {
			it, is := heap.Pop(&q.delayed).(*item[T])
			if !is {
				panic("queue: not an item")
			}
			q.readyLocked(it)
		}
	}
	it := q.ready.first
	if it != nil {
		q.ready.remove(it)
		it.state = itemActive
	}
	return it
}

func (q *Queue[T]) beginLocked(it *item[T]) task[T] {
	p := it.todo[0]
	it.todo[0] = pending[T]{}
	it.todo = it.todo[1:]
	q.total--
	if p.counts {
		q.delivering++
	}
	if it.work == nil {
		it.work, q.spare = q.spare, nil
	}
	if it.work == nil {
		it.work = &work[T]{}
	}
	w := it.work
	w.current, w.since = p.new, p.since
	return task[T]{item: it, pending: p, delivery: it.delivery(p), seen: it.seen, shown: w.shown, owes: w.owes}
}

// finish records the result of a task and reports an incident.
func (q *Queue[T]) finish(ctx context.Context, t task[T], err error) {
	if failure := q.conclude(ctx, t, err); failure.Kind != 0 {
		q.report(failure)
	}
}

func (q *Queue[T]) conclude(ctx context.Context, t task[T], err error) (failure incident.Incident) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped != nil {
		return failure // the key does not matter any more
	}
	if t.pending.counts {
		t.pending.counts = false
		q.initial--
		q.delivering--
	}
	switch {
	case err == nil:
		q.handledLocked(t.item, t.pending)
	case ctx.Err() != nil:
		q.againLocked(t) // the call was interrupted: not a failure of the key
		q.readyLocked(t.item)
	default:
		t.item.work.attempts++
		failure = incident.Incident{Err: err, Key: t.item.key, RV: t.pending.rv}
		failure.Kind, failure.Next = q.failedLocked(t, err)
	}
	q.checkSyncedLocked()
	q.wakeLocked()
	q.roomLocked()
	return failure
}

func (q *Queue[T]) handledLocked(it *item[T], p pending[T]) {
	var none handle.Handle[T]
	it.work.attempts, it.work.owes = 0, false
	it.seen, it.work.shown = p.new, none
	if len(it.todo) == 0 {
		q.forgetLocked(it)
		return
	}
	q.readyLocked(it)
}

func (q *Queue[T]) againLocked(t task[T]) {
	var none handle.Handle[T]
	it := t.item
	if t.begun {
		it.work.owes = true
		if t.delivery.New != none {
			it.work.shown = t.delivery.New
		}
	}
	q.total -= len(it.todo)
	q.initial -= it.again(t.pending, q.mergingLocked())
	q.total += len(it.todo)
}

func (q *Queue[T]) failedLocked(t task[T], err error) (incident.Kind, string) {
	it, kind := t.item, incident.HandlerFailed
	if _, is := errors.AsType[*incident.PanicError](err); is {
		kind = incident.HandlerPanicked
	}
	if q.opts.Retries > 0 && it.work.attempts > q.opts.Retries {
		q.handledLocked(it, t.pending)
		return incident.HandlerGaveUp, ""
	}
	fresh := len(it.todo) > 0
	q.againLocked(t)
	if fresh && q.mergingLocked() != mergeNothing {
		q.readyLocked(it) // there is a newer state already
		return kind, "retry"
	}
	wait := min(q.opts.RetryMin<<min(it.work.attempts-1, 30), q.opts.RetryMax)
	if wait <= 0 {
		wait = q.opts.RetryMax // the shift overflowed
	}
	it.state, it.work.due = itemDelayed, time.Now().Add(wait)
	heap.Push(&q.delayed, it)
	return kind, "wait " + wait.String() + ", then retry"
}

// call calls the handler for a task, unless the filter excludes it. A panic is an error.
func (q *Queue[T]) call(ctx context.Context, t *task[T]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &incident.PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	d, deliver := q.filter.view(t)
	if !deliver {
		return nil
	}
	t.delivery, t.begun = d, true
	return q.handle(ctx, d)
}
