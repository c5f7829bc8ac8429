package audit

import (
	"context"
	"iter"
	"sync"
)

// queue is the lines that wait for Run, bounded by their number and their bytes.
type queue struct {
	most, mostBytes int
	wake            chan struct{} // has one element when there may be lines

	// mu guards what follows.
	mu      sync.Mutex
	waiting [][]byte
	bytes   int
}

func newQueue(most, mostBytes int) *queue {
	return &queue{most: most, mostBytes: mostBytes, wake: make(chan struct{}, 1)}
}

// add adds a line, and reports whether there was space for it.
func (q *queue) add(line []byte) bool {
	q.mu.Lock()
	fits := len(q.waiting) < q.most && q.bytes+len(line) <= q.mostBytes
	if fits {
		q.waiting = append(q.waiting, line)
		q.bytes += len(line)
	}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return fits
}

// take removes all lines.
func (q *queue) take() [][]byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.waiting
	q.waiting, q.bytes = nil, 0
	return all
}

// lines yields the lines until ctx ends and none is left.
func (q *queue) lines(ctx context.Context) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			for _, line := range q.take() {
				if !yield(line) {
					return
				}
			}
			select {
			case <-q.wake:
			case <-ctx.Done():
				for _, line := range q.take() {
					if !yield(line) {
						return
					}
				}
				return
			}
		}
	}
}
