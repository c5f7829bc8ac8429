package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// fewItems is how many items a map may have had without being replaced when empty.
const fewItems = 1024

// Queue holds the deliveries of one handler that wait: at most a deletion and a state per
// key, or every version. All methods are safe for concurrent use.
type Queue[T handle.Object] struct {
	handle func(context.Context, Delivery[T]) error
	filter Filter[T]
	opts   Options
	report func(incident.Incident)
	synced chan struct{} // closed when the initial state was delivered
	done   chan struct{} // closed when it is stopped

	// mu guards the fields below. Callers of Add may hold a lock of their own. No function
	// of the user is called under mu.
	mu         sync.Mutex
	items      map[handle.Key]*item[T]
	most       int // items since the map was made
	spare      *work[T]
	ready      line[T]
	delayed    delayed[T]
	total      int           // entries in all items' todo
	initial    int           // initial objects that were not delivered, including delivering
	delivering int           // initial objects that are being delivered
	primed     bool          // the initial state was added
	stopped    error         // why the queue is stopped
	overfull   bool          // it keeps every version, but was full
	workers    int           // running
	idle       int           // of them: waiting for work
	cancel     func()        // ends the workers' context; nil when none runs
	wake       chan struct{} // closed and replaced when there is work
	room       chan struct{} // closed and replaced when total shrank
	quiet      chan struct{} // closed when no worker runs
}

// New returns an empty queue for the handler call. report is called with incidents by the
// workers; no lock is held then.
func New[T handle.Object](call func(context.Context, Delivery[T]) error, f Filter[T], o Options,
	report func(incident.Incident),
) *Queue[T] {
	q := &Queue[T]{
		handle: call, filter: f, opts: o, report: report,
		synced: make(chan struct{}), done: make(chan struct{}), items: map[handle.Key]*item[T]{},
		wake: make(chan struct{}), room: make(chan struct{}), quiet: make(chan struct{}),
	}
	close(q.quiet)
	return q
}

// Add adds changes. initial says that they are the initial state. If more versions wait
// than the options allow, it returns the incident; otherwise Kind is 0.
func (q *Queue[T]) Add(changes []state.Change[T], initial bool) incident.Incident {
	var t incident.Incident
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
		if q.opts.WhenFull == Block || q.overfull || !q.fullLocked() {
			continue // under Block, what was read at once is added completely
		}
		if t = q.overflowLocked(); q.stopped != nil {
			return t
		}
	}
	q.checkSyncedLocked()
	q.wakeLocked()
	return t
}

// Prime says that the initial state was added.
func (q *Queue[T]) Prime() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.primed = true
	q.checkSyncedLocked()
}

// putLocked adds a delivery; seen is the state that the handler knows if none waits.
func (q *Queue[T]) putLocked(key handle.Key, p pending[T], seen handle.Handle[T]) {
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
		// The newer state may be the one that the handler needs: retry at once.
		q.hurryLocked(it)
	}
}

func (q *Queue[T]) dropLocked(it *item[T]) {
	q.ready.remove(it)
	q.forgetLocked(it)
}

// forgetLocked removes an item without deliveries. Maps do not shrink, so an empty one is
// replaced.
func (q *Queue[T]) forgetLocked(it *item[T]) {
	delete(q.items, it.key)
	if len(q.items) == 0 && q.most > fewItems {
		q.items, q.most = map[handle.Key]*item[T]{}, 0
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

// Resync re-delivers an object, unless the key waits anyway or there is no room. object
// must be the newest state that was added.
func (q *Queue[T]) Resync(key handle.Key, object handle.Handle[T], rv string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped != nil || !q.primed || q.fullLocked() || q.items[key] != nil {
		return
	}
	q.putLocked(key, pending[T]{new: object, rv: rv, resync: true, must: true}, object)
	q.wakeLocked()
}

// Enqueue re-delivers an object like Resync, in any case: a change of the key that waits
// is delivered at once, whatever Filter.Differs says. A zero object stands for a key
// without one, which is delivered only with Options.KeysOnly.
func (q *Queue[T]) Enqueue(key handle.Key, object handle.Handle[T], rv string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var none handle.Handle[T]
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
		return // a worker looks before it sleeps
	}
	close(q.wake)
	q.wake = make(chan struct{})
}

// Synced is closed when the handler has been called for all initial objects that still
// exist.
func (q *Queue[T]) Synced() <-chan struct{} { return q.synced }

// Done is closed when the queue was stopped, by Stop or because it was full.
func (q *Queue[T]) Done() <-chan struct{} { return q.done }

// Err returns why the queue was stopped; nil: it is not stopped.
func (q *Queue[T]) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// Keys is how many keys the handler has not handled.
func (q *Queue[T]) Keys() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Lag is the age of the oldest change that was not handled; 0 if there is none. It takes
// time proportional to Keys.
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

// Stop stops the queue for good, for the reason why. It does not wait for the workers.
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

// stopLocked drops the deliveries that wait and cancels running calls.
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
