package quota

import (
	"container/heap"
	"sync"
	"time"
)

// queue is the namespaces that are to be counted, the next one first. It is safe for concurrent use.
type queue struct {
	wake chan struct{}

	// mu guards what follows, and what is in it.
	mu    *sync.Mutex
	items map[string]*item
	due   *byTime
}

// item is a namespace that is to be counted, is being counted, or must not be yet.
type item struct {
	namespace string
	at        time.Time // zero: nothing is to be done
	notBefore time.Time
	taken     bool
	rests     bool // it is due for being forgotten
	place     int  // in the heap; -1: it is not in it

	retry time.Duration // of the worker whose turn it is
}

func newQueue() queue {
	return queue{wake: make(chan struct{}, 1), mu: &sync.Mutex{}, items: map[string]*item{}, due: &byTime{}}
}

// add asks for a count of a namespace at a time, or earlier if that was asked for.
func (q *queue) add(namespace string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.items[namespace]
	if i == nil {
		i = &item{namespace: namespace, place: -1}
		q.items[namespace] = i
	}
	if at.Before(i.notBefore) {
		at = i.notBefore
	}
	if !i.rests && !i.at.IsZero() && !at.Before(i.at) {
		return
	}
	i.at, i.rests = at, false
	if i.taken {
		return
	}
	q.placeLocked(i)
}

func (q *queue) placeLocked(i *item) {
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

// idle is how long a worker waits when nothing is due.
const idle = time.Hour

// take returns the namespace that is due, nil and for how long nothing is.
func (q *queue) take(now time.Time) (*item, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(*q.due) > 0 {
		first := (*q.due)[0]
		if wait := first.at.Sub(now); wait > 0 {
			return nil, wait
		}
		heap.Pop(q.due)
		if first.rests {
			delete(q.items, first.namespace)
			continue
		}
		first.taken, first.at = true, time.Time{}
		if len(*q.due) > 0 {
			q.signal() // another worker looks
		}
		return first, 0
	}
	return nil, idle
}

// done ends the turn of a namespace, which is due again at next, if that is not zero, but not before another time.
func (q *queue) done(i *item, next, notBefore time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i.taken, i.notBefore = false, notBefore
	if !next.IsZero() && (i.at.IsZero() || next.Before(i.at)) {
		i.at = next
	}
	if i.at.IsZero() {
		i.rests = true
	}
	if i.at.Before(notBefore) {
		i.at = notBefore
	}
	q.placeLocked(i)
}

// byTime is a heap.
type byTime []*item

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
	i, is := x.(*item)
	if !is {
		return
	}
	i.place = len(*h)
	*h = append(*h, i)
}

// Pop implements heap.Interface.
func (h *byTime) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	last.place = -1
	return last
}
