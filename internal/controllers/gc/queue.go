package gc

import (
	"container/heap"
	"context"
	"slices"
	"time"
)

// turn is where a vertex is with respect to the queue: at one place at most, so that no two
// workers handle it at the same time.
type turn uint8

const (
	idle    turn = iota
	queued       // in the queue
	running      // a worker handles it
	rerun        // a worker handles it, and it is to be handled again
	failed       // in the schedule
)

// fifo is a queue of vertices, each in it at most once.
type fifo struct {
	items []*vertex
	first int
}

func (q *fifo) Len() int { return len(q.items) - q.first }

func (q *fifo) push(v *vertex) { q.items = append(q.items, v) }

// pop returns nil when there is nothing.
func (q *fifo) pop() *vertex {
	if q.Len() == 0 {
		return nil
	}
	v := q.items[q.first]
	q.items[q.first] = nil
	q.first++
	switch {
	case q.Len() == 0:
		q.items, q.first = nil, 0
	case q.first > len(q.items)/2:
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return v
}

// begin lets workers run: it queues every vertex about which there may be something to do.
func (g *graph) begin() {
	g.mu.Lock()
	g.working = true
	all := make([]*vertex, 0, len(g.vertices))
	for _, v := range g.vertices {
		all = append(all, v)
	}
	g.mu.Unlock()
	g.enqueueAll(all)
}

// enqueueAll queues vertices, but for those that say nothing any more. It lets go of the lock in
// between, so that writers do not wait for many.
func (g *graph) enqueueAll(all []*vertex) {
	const most = 256
	for part := range slices.Chunk(all, most) {
		g.mu.Lock()
		for _, v := range part {
			if len(v.owners) > 0 || v.waits != waitsForNothing || v.gone && v.count > 0 {
				g.enqueueLocked(v)
			}
		}
		g.mu.Unlock()
	}
}

// end empties the queue when all workers have ended: begin queues again what is left then.
func (g *graph) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working = false
	g.queue, g.later = fifo{}, nil
	for _, v := range g.vertices {
		v.turn, v.failures = idle, 0
		g.dropLocked(v)
	}
}

// enqueueLocked lets a vertex be handled, again if it is being handled. One that
// failed is handled at once: something has changed. While no workers run it does nothing.
func (g *graph) enqueueLocked(v *vertex) {
	if !g.working {
		return
	}
	switch v.turn {
	case queued, rerun:
		return
	case running:
		v.turn = rerun
		return
	case idle, failed: // what is in the schedule is found to be queued when its time comes
	}
	v.turn = queued
	g.queue.push(v)
	select {
	case g.wake <- struct{}{}:
	default: // there are tokens for all workers
	}
}

// take returns the next vertex, nil if there is none. The worker calls done, again,
// fail or park with it.
func (g *graph) take() *vertex {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.queue.pop()
	if v != nil {
		v.turn = running
	}
	return v
}

// done ends the turn of a vertex.
func (g *graph) done(v *vertex) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v.failures = 0
	delete(g.parked, v)
	g.endLocked(v)
}

func (g *graph) endLocked(v *vertex) {
	more := v.turn == rerun
	v.turn = idle
	if more {
		g.enqueueLocked(v)
	}
	g.dropLocked(v)
}

// again ends the turn of a vertex and queues it: nothing was done about it.
func (g *graph) again(v *vertex) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v.turn = rerun
	g.endLocked(v)
}

// park ends the turn of a vertex whose owner is of an unknown kind, until unpark.
func (g *graph) park(v *vertex) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(v.owners) > 0 {
		g.parked[v] = struct{}{}
	}
	g.endLocked(v)
}

// unpark queues what was parked.
func (g *graph) unpark() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for v := range g.parked {
		g.enqueueLocked(v)
	}
	clear(g.parked)
}

// fail ends the turn of a vertex and queues it after a pause.
func (g *graph) fail(v *vertex) {
	g.mu.Lock()
	defer g.mu.Unlock()
	pause := maxRetry
	if v.failures < 10 { // 2^10 * minRetry is the most
		pause = min(maxRetry, minRetry<<v.failures)
		v.failures++
	}
	if v.turn == rerun {
		g.endLocked(v)
		return
	}
	v.turn = failed
	heap.Push(&g.later, scheduled{at: time.Now().Add(pause), vertex: v})
	select {
	case g.due <- struct{}{}:
	default:
	}
}

// requeue queues failed vertices when their pause is over, until ctx ends.
func (g *graph) requeue(ctx context.Context) {
	for {
		var next <-chan time.Time
		g.mu.Lock()
		for len(g.later) > 0 {
			if pause := time.Until(g.later[0].at); pause > 0 {
				next = time.After(pause)
				break
			}
			v := heap.Pop(&g.later).(scheduled).vertex // it has no others
			if v.turn == failed {
				g.enqueueLocked(v)
			}
		}
		g.mu.Unlock()
		select {
		case <-next:
		case <-g.due:
		case <-ctx.Done():
			return
		}
	}
}

// scheduled is a vertex that failed, and when it is tried again.
type scheduled struct {
	at     time.Time
	vertex *vertex
}

// schedule is a heap.
type schedule []scheduled

func (s *schedule) Len() int           { return len(*s) }
func (s *schedule) Less(i, j int) bool { return (*s)[i].at.Before((*s)[j].at) }
func (s *schedule) Swap(i, j int)      { (*s)[i], (*s)[j] = (*s)[j], (*s)[i] }

// Push implements heap.Interface.
func (s *schedule) Push(x any) { *s = append(*s, x.(scheduled)) }

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := (*s)[len(*s)-1]
	(*s)[len(*s)-1] = scheduled{}
	*s = (*s)[:len(*s)-1]
	return last
}
