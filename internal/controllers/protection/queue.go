package protection

import (
	"container/heap"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

// queue is the objects that are to be looked at, the next one first. It is safe for concurrent use.
type queue struct {
	wake chan struct{} // has a token while something is due, or will be sooner than the workers know

	// mu guards what follows, and what is in it.
	mu      *sync.Mutex
	known   map[wire.Key]struct{} // about which there may be something to do, also while nobody works
	working bool
	items   map[wire.Key]*waiting // only while somebody works
	due     *byTime
}

// waiting is an object that is to be looked at, or is being looked at.
type waiting struct {
	key   wire.Key
	at    time.Time
	taken bool
	again bool // it was changed while it was taken
	place int  // in the heap; -1: it is not in it

	retry time.Duration // of the worker whose turn it is
}

func newQueue() queue {
	return queue{
		wake: make(chan struct{}, 1), mu: &sync.Mutex{}, known: map[wire.Key]struct{}{},
		items: map[wire.Key]*waiting{}, due: &byTime{},
	}
}

// note says that there may be something to do about an object.
func (q *queue) note(key wire.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.known[key] = struct{}{}
	q.addLocked(key)
}

// look is note for an object that may not be there.
func (q *queue) look(key wire.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.known[key]; known {
		q.addLocked(key)
	}
}

// forget says that there is nothing to do about an object.
func (q *queue) forget(key wire.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.known, key)
}

// addLocked lets an object be looked at now, again if that is being done. One that failed is looked at, too: something
// has changed.
func (q *queue) addLocked(key wire.Key) {
	if !q.working {
		return
	}
	i := q.items[key]
	if i == nil {
		i = &waiting{key: key, place: -1}
		q.items[key] = i
	}
	if i.taken {
		i.again = true
		return
	}
	if now := time.Now(); i.place < 0 || now.Before(i.at) {
		q.placeLocked(i, now)
	}
}

func (q *queue) placeLocked(i *waiting, at time.Time) {
	i.at = at
	if i.place < 0 {
		heap.Push(q.due, i)
	} else {
		heap.Fix(q.due, i.place)
	}
	if i.place == 0 {
		q.signal()
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// begin lets objects be looked at: all that are known.
func (q *queue) begin() {
	q.mu.Lock()
	q.working = true
	all := slices.Collect(maps.Keys(q.known))
	q.mu.Unlock()
	const most = 256 // then writers may go on
	for part := range slices.Chunk(all, most) {
		q.mu.Lock()
		for _, key := range part {
			q.addLocked(key)
		}
		q.mu.Unlock()
	}
}

// end forgets what was to be looked at, when all workers have ended.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working = false
	q.items, q.due = map[wire.Key]*waiting{}, &byTime{}
}

// take returns the object that is due; nil, and for how long nothing is (0: nothing will be), if there is none. The
// worker calls done with it.
func (q *queue) take(now time.Time) (*waiting, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(*q.due) == 0 {
		return nil, 0
	}
	first := (*q.due)[0]
	if wait := first.at.Sub(now); wait > 0 {
		return nil, wait
	}
	heap.Pop(q.due)
	first.taken = true
	if len(*q.due) > 0 {
		q.signal() // another worker looks
	}
	return first, 0
}

// done ends the turn of an object, which is due again after a time, if that is not 0.
func (q *queue) done(i *waiting, after time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	again := i.again
	i.taken, i.again = false, false
	switch {
	case again:
		q.placeLocked(i, time.Now())
	case after > 0:
		q.placeLocked(i, time.Now().Add(after))
	default:
		delete(q.items, i.key)
	}
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// byTime is a heap.
type byTime []*waiting

func (h *byTime) Len() int           { return len(*h) }
func (h *byTime) Less(a, b int) bool { return (*h)[a].at.Before((*h)[b].at) }

// Swap implements heap.Interface.
func (h *byTime) Swap(a, b int) {
	of := *h
	of[a], of[b] = of[b], of[a]
	of[a].place, of[b].place = a, b
}

// Push implements heap.Interface.
func (h *byTime) Push(x any) {
	i, is := x.(*waiting)
	if !is {
		return
	}
	i.place = len(*h)
	*h = append(*h, i)
}

// Pop implements heap.Interface.
func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	last.place = -1
	return last
}
