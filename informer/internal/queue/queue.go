package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// fewItems are no reason to make a smaller map.
const fewItems = 1024

// Queue is what one handler has still to be told: at most a deletion and a state per
// key, or every version. All methods are safe for concurrent use.
type Queue[T comparable] struct {
	handle func(context.Context, Told[T]) error
	filter Filter[T]
	opts   Options
	report func(Trouble)
	synced chan struct{} // closed when the handler has been told the initial state
	done   chan struct{} // closed when it is stopped for ever

	// mu guards all below. It may be taken while holding a lock of who calls Add;
	// nothing is called while it is held.
	mu        sync.Mutex
	items     map[Key]*item[T]
	most      int // items since the map was made
	spare     *work[T]
	ready     line[T]
	delayed   delayed[T]
	total     int           // entries in all items' todo
	initial   int           // initial objects not yet told, telling of them in calls
	telling   int           // initial objects that are being told
	primed    bool          // the initial state has been put in
	stopped   error         // why it is, for ever
	restating bool          // it keeps every version, but was full
	workers   int           // running
	idle      int           // of them: waiting for work
	cancel    func()        // ends the workers' context; nil when none runs
	wake      chan struct{} // closed and replaced when there is work
	room      chan struct{} // closed and replaced when total shrank
	quiet     chan struct{} // closed when no worker runs
}

// New makes an empty queue of the handler. report is told what goes wrong, by the
// workers; no lock is held then.
func New[T comparable](handle func(context.Context, Told[T]) error, f Filter[T], o Options, report func(Trouble)) *Queue[T] {
	q := &Queue[T]{
		handle: handle, filter: f, opts: o, report: report,
		synced: make(chan struct{}), done: make(chan struct{}), items: map[Key]*item[T]{},
		wake: make(chan struct{}), room: make(chan struct{}), quiet: make(chan struct{}),
	}
	close(q.quiet)
	return q
}

// Add puts changes in. initial says that they are the state at the beginning. When
// that is more than the options allow, it returns what came of it; else Kind is 0.
func (q *Queue[T]) Add(changes []Change[T], initial bool) Trouble {
	var t Trouble
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped != nil || initial && q.opts.SkipInitial {
		return t
	}
	now := time.Now()
	for _, c := range changes {
		q.putLocked(c.Key, pending[T]{
			new: c.New, last: c.Last, rv: c.RV, since: now, initial: initial, counts: initial, inferred: c.Inferred,
		}, c.Old)
		if q.opts.WhenFull == Block || q.restating || !q.fullLocked() {
			continue // where room is waited for, what was read in one go comes in whole
		}
		if t = q.overflowLocked(); q.stopped != nil {
			return t
		}
	}
	q.checkSyncedLocked()
	q.wakeLocked()
	return t
}

// Prime says that the initial state has been put in.
func (q *Queue[T]) Prime() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.primed = true
	q.checkSyncedLocked()
}

// putLocked puts one thing in; seen is what the handler knows if nothing waits.
func (q *Queue[T]) putLocked(key Key, p pending[T], seen T) {
	if p.counts {
		q.initial++
	}
	it := q.items[key]
	if it == nil {
		it = &item[T]{key: key, seen: seen}
		q.items[key] = it
		q.most = max(q.most, len(q.items))
		q.ready.push(it)
	}
	q.total -= len(it.todo)
	q.initial -= it.put(p, q.mergingLocked())
	q.total += len(it.todo)
	switch {
	case it.state == itemReady && len(it.todo) == 0:
		q.dropLocked(it)
	case it.state == itemDelayed:
		// A newer state may be what the handler needs: it is tried at once.
		q.hurryLocked(it)
	}
}

func (q *Queue[T]) dropLocked(it *item[T]) {
	q.ready.remove(it)
	q.forgetLocked(it)
}

// forgetLocked takes an item out that has nothing more to tell. A map does not shrink.
func (q *Queue[T]) forgetLocked(it *item[T]) {
	delete(q.items, it.key)
	if len(q.items) == 0 && q.most > fewItems {
		q.items, q.most = map[Key]*item[T]{}, 0
	}
	if it.work != nil {
		*it.work = work[T]{}
		q.spare, it.work = it.work, nil
	}
}

func (q *Queue[T]) hurryLocked(it *item[T]) {
	heap.Remove(&q.delayed, it.work.place)
	q.readyLocked(it)
}

func (q *Queue[T]) readyLocked(it *item[T]) {
	it.state = itemReady
	q.ready.push(it)
}

// Resync puts an object in once more, unless there is news of it anyway, or no room.
// It must be the newest that was added, or there at the beginning.
func (q *Queue[T]) Resync(key Key, object T, rv string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped != nil || !q.primed || q.fullLocked() || q.items[key] != nil {
		return
	}
	q.putLocked(key, pending[T]{new: object, rv: rv, resync: true, must: true}, object)
	q.wakeLocked()
}

// Ask puts an object in once more as Resync does, but for certain: whatever waits of
// the key is told, at once. The zero object stands for a key without one, which only
// who hears of keys is told.
func (q *Queue[T]) Ask(key Key, object T, rv string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var none T
	it := q.items[key]
	switch {
	case q.stopped != nil || !q.primed:
		return
	case it != nil && len(it.todo) > 0:
		it.todo[len(it.todo)-1].must = true // and that is the newest state
		if it.state == itemDelayed {
			q.hurryLocked(it)
		}
	case object != none || q.opts.KeysOnly:
		q.putLocked(key, pending[T]{new: object, rv: rv, resync: true, must: true}, object)
	}
	q.wakeLocked()
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

// Done is closed when the queue was stopped, by Stop or because it was full.
func (q *Queue[T]) Done() <-chan struct{} { return q.done }

// Err says why the queue was stopped; nil: it was not.
func (q *Queue[T]) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// Keys is how many keys the handler is behind on.
func (q *Queue[T]) Keys() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Lag is how long ago the oldest change came that was not handled; 0 if there is
// none. It looks at every key that waits.
func (q *Queue[T]) Lag() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	var oldest time.Time
	for _, it := range q.items {
		var since time.Time
		if it.state == itemActive {
			since = it.work.since
		}
		if since.IsZero() {
			for n := 0; n < len(it.todo) && since.IsZero(); n++ {
				since = it.todo[n].since
			}
		}
		if !since.IsZero() && (oldest.IsZero() || since.Before(oldest)) {
			oldest = since
		}
	}
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest)
}

// Stop ends the workers for ever, for the reason why. It does not wait for them.
func (q *Queue[T]) Stop(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopLocked(why)
}

// Wait blocks until no worker runs, or until ctx ends, and then returns its cause.
func (q *Queue[T]) Wait(ctx context.Context) error {
	q.mu.Lock()
	quiet := q.quiet
	q.mu.Unlock()
	select {
	case <-quiet:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// stopLocked drops what waits and cancels what runs.
func (q *Queue[T]) stopLocked(why error) {
	if q.stopped != nil {
		return
	}
	q.stopped = why
	close(q.done)
	if q.cancel != nil {
		q.cancel()
	}
	clear(q.items)
	q.ready, q.delayed, q.total, q.initial = line[T]{}, nil, 0, 0
	close(q.room)
	q.room = make(chan struct{})
}
