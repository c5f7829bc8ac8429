package queue

import (
	"container/heap"
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"
)

// Queue is what one handler has still to be told: at most a deletion and a state per
// key, or every version. All methods are safe for concurrent use.
type Queue[T comparable] struct {
	handle func(context.Context, Told[T]) error
	opts   Options
	report func(Trouble)
	synced chan struct{} // closed when the handler has been told the initial state

	// mu guards all below. It may be taken while holding a lock of who calls Add; nothing is
	// called while it is held.
	mu      sync.Mutex
	items   map[Key]*item[T]
	ready   line[T]
	delayed delayed[T]
	total   int           // entries in all items' todo
	initial int           // initial objects not yet told
	primed  bool          // the initial state has been put in
	stopped bool          // for ever
	workers int           // running
	idle    int           // of them: waiting for work
	cancel  func()        // ends the workers' context; nil when none runs
	wake    chan struct{} // closed and replaced when there is work
	room    chan struct{} // closed and replaced when total shrank
	quiet   chan struct{} // closed when no worker runs; nil when one does
}

// New makes an empty queue of the handler. report is told what goes wrong, by the
// workers; no lock is held then.
func New[T comparable](handle func(context.Context, Told[T]) error, o Options, report func(Trouble)) *Queue[T] {
	q := &Queue[T]{
		handle: handle, opts: o, report: report,
		synced: make(chan struct{}), items: map[Key]*item[T]{},
		wake: make(chan struct{}), room: make(chan struct{}), quiet: make(chan struct{}),
	}
	close(q.quiet)
	return q
}

// Start runs the workers through spawn until ctx ends, and returns the context that
// they run in, which ends with stop too; nil if nothing was started.
func (q *Queue[T]) Start(ctx context.Context, spawn func(func())) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || ctx.Err() != nil {
		return nil
	}
	ctx, q.cancel = context.WithCancel(ctx)
	q.workers = q.opts.Workers
	q.quiet = make(chan struct{})
	for range q.opts.Workers {
		// Run owns them and waits; they end with ctx, or with stop.
		spawn(func() { q.work(ctx) })
	}
	return ctx
}

// Add puts changes in. initial says that they are the state at the beginning.
func (q *Queue[T]) Add(changes []Change[T], initial bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	for _, c := range changes {
		q.putLocked(c, initial)
	}
	q.checkSyncedLocked()
	q.wakeLocked()
}

// Prime says that the initial state has been put in.
func (q *Queue[T]) Prime() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.primed = true
	q.checkSyncedLocked()
}

func (q *Queue[T]) putLocked(c Change[T], initial bool) {
	p := pending[T]{new: c.New, last: c.Last, rv: c.RV, initial: initial, counts: initial, inferred: c.Inferred}
	if initial {
		q.initial++
	}
	it := q.items[c.Key]
	if it == nil {
		it = &item[T]{key: c.Key, seen: c.Old}
		q.items[c.Key] = it
		q.ready.push(it)
	}
	q.total -= len(it.todo)
	q.initial -= it.put(p, q.opts.Every == 0)
	q.total += len(it.todo)
	switch {
	case it.state == itemReady && len(it.todo) == 0:
		q.ready.remove(it)
		delete(q.items, it.key)
	case it.state == itemDelayed:
		// A newer state may be what the handler needs: it is tried at once.
		heap.Remove(&q.delayed, it.place)
		q.readyLocked(it)
	}
}

// Resync puts an object in once more, unless there is news of it anyway.
func (q *Queue[T]) Resync(key Key, object T, rv string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	full := q.opts.Every > 0 && q.total >= q.opts.Every
	if q.stopped || !q.primed || full || q.items[key] != nil {
		return
	}
	it := &item[T]{key: key, seen: object}
	it.todo = append(it.todo, pending[T]{new: object, rv: rv, resync: true})
	q.items[key] = it
	q.total++
	q.ready.push(it)
	q.wakeLocked()
}

// WaitRoom blocks while a queue that keeps every version is full.
func (q *Queue[T]) WaitRoom(ctx context.Context) {
	for {
		q.mu.Lock()
		full := q.opts.Every > 0 && q.total >= q.opts.Every && !q.stopped
		room := q.room
		q.mu.Unlock()
		if !full {
			return
		}
		select {
		case <-room:
		case <-ctx.Done():
			return
		}
	}
}

func (q *Queue[T]) work(ctx context.Context) {
	defer q.leave()
	for {
		t, more := q.take(ctx)
		if !more {
			return
		}
		err := q.call(ctx, t.told)
		q.done(ctx, t, err)
	}
}

// task is what a worker has in hand.
type task[T comparable] struct {
	item    *item[T]
	pending pending[T]
	told    Told[T]
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

// take blocks until there is a key to handle; not more when ctx ended.
func (q *Queue[T]) take(ctx context.Context) (t task[T], more bool) {
	for ctx.Err() == nil {
		q.mu.Lock()
		if it := q.popLocked(); it != nil {
			t = task[T]{item: it, pending: it.todo[0], told: it.told(it.todo[0])}
			it.current = it.todo[0].new
			it.todo[0] = pending[T]{}
			it.todo = it.todo[1:]
			q.total--
			q.mu.Unlock()
			return t, true
		}
		wake := q.wake
		var due time.Time
		if len(q.delayed) > 0 {
			due = q.delayed[0].due
		}
		q.idle++
		q.mu.Unlock()
		pause(ctx, wake, due)
		q.mu.Lock()
		q.idle--
		q.mu.Unlock()
	}
	return t, false
}

// pause waits for wake, for due if it is a time, or for the end of ctx.
func pause(ctx context.Context, wake <-chan struct{}, due time.Time) {
	var elapsed <-chan time.Time
	if !due.IsZero() {
		timer := time.NewTimer(time.Until(due))
		defer timer.Stop()
		elapsed = timer.C
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-elapsed:
	}
}

// popLocked takes the next key that has something to tell.
func (q *Queue[T]) popLocked() *item[T] {
	now := time.Now()
	for len(q.delayed) > 0 && !q.delayed[0].due.After(now) {
		it, is := heap.Pop(&q.delayed).(*item[T])
		if !is {
			panic("queue: not an item")
		}
		q.readyLocked(it)
	}
	it := q.ready.first
	if it != nil {
		q.ready.remove(it)
		it.state = itemActive
	}
	return it
}

func (q *Queue[T]) readyLocked(it *item[T]) {
	it.state = itemReady
	q.ready.push(it)
}

// done takes note of what became of a task.
func (q *Queue[T]) done(ctx context.Context, t task[T], err error) {
	trouble := Trouble{Err: err, Key: t.item.key, RV: t.pending.rv}
	q.mu.Lock()
	if t.pending.counts {
		t.pending.counts = false
		q.initial--
	}
	switch {
	case err == nil:
		q.handledLocked(t.item, t.pending)
	case ctx.Err() != nil:
		q.againLocked(t.item, t.pending) // it was interrupted; that says nothing about the key
		q.readyLocked(t.item)
	default:
		t.item.attempts++
		trouble.Kind, trouble.Next = q.failedLocked(t.item, t.pending, err)
	}
	q.checkSyncedLocked()
	q.wakeLocked()
	if q.opts.Every > 0 {
		close(q.room)
		q.room = make(chan struct{})
	}
	q.mu.Unlock()
	if trouble.Kind != 0 {
		q.report(trouble)
	}
}

func (q *Queue[T]) handledLocked(it *item[T], p pending[T]) {
	it.attempts = 0
	it.seen, it.shown = p.new, p.new
	if len(it.todo) == 0 {
		delete(q.items, it.key)
		return
	}
	q.readyLocked(it)
}

func (q *Queue[T]) againLocked(it *item[T], p pending[T]) {
	var none T
	if p.new != none {
		it.shown = p.new
	}
	q.total -= len(it.todo)
	q.initial -= it.again(p, q.opts.Every == 0)
	q.total += len(it.todo)
}

func (q *Queue[T]) failedLocked(it *item[T], p pending[T], err error) (TroubleKind, string) {
	kind := Failed
	if _, is := errors.AsType[*PanicError](err); is {
		kind = Panicked
	}
	if q.opts.Retries > 0 && it.attempts > q.opts.Retries {
		q.handledLocked(it, p)
		return GaveUp, ""
	}
	fresh := len(it.todo) > 0
	q.againLocked(it, p)
	if fresh && q.opts.Every == 0 {
		q.readyLocked(it) // there is a newer state already
		return kind, "retry"
	}
	wait := min(q.opts.RetryMin<<min(it.attempts-1, 30), q.opts.RetryMax)
	if wait <= 0 {
		wait = q.opts.RetryMax // the shift overflowed
	}
	it.state, it.due = itemDelayed, time.Now().Add(wait)
	heap.Push(&q.delayed, it)
	return kind, "wait " + wait.String() + ", then retry"
}

// call runs the handler; a panic is an error.
func (q *Queue[T]) call(ctx context.Context, e Told[T]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return q.handle(ctx, e)
}

func (q *Queue[T]) checkSyncedLocked() {
	if q.primed && q.initial == 0 {
		select {
		case <-q.synced:
		default:
			close(q.synced)
		}
	}
}

func (q *Queue[T]) wakeLocked() {
	if q.idle == 0 {
		return // who looks next sees it
	}
	close(q.wake)
	q.wake = make(chan struct{})
}

// Synced is closed when the handler has been called for all initial objects that
// still are.
func (q *Queue[T]) Synced() <-chan struct{} { return q.synced }

// Keys is how many keys the handler is behind on.
func (q *Queue[T]) Keys() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Stop ends the workers for ever and waits for them, at most until ctx ends.
func (q *Queue[T]) Stop(ctx context.Context) error {
	q.mu.Lock()
	q.stopped = true
	if q.cancel != nil {
		q.cancel()
	}
	quiet := q.quiet
	close(q.room)
	q.room = make(chan struct{})
	q.mu.Unlock()
	select {
	case <-quiet:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.items)
	q.ready, q.delayed, q.total = line[T]{}, nil, 0
	return nil
}
