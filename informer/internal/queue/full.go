package queue

import (
	"context"
	"errors"
	"fmt"
)

// ErrFull is why a queue was stopped that had no room and the policy Fail.
var ErrFull = errors.New("more versions wait than the handler allows")

// Policy says what a queue that keeps every version does when it is full.
type Policy int

// The policies: who adds is to wait for room first (see WaitRoom); what waits is
// merged, until half of it was told; the queue is stopped.
const (
	Block Policy = iota
	Restate
	Fail
)

// mergingLocked says what becomes of changes of a key that waits.
func (q *Queue[T]) mergingLocked() merging {
	switch {
	case q.opts.KeysOnly:
		return mergeKeys
	case q.opts.Every == 0 || q.restating:
		return mergeStates
	}
	return mergeNothing
}

// fullLocked says that no further version has room. The initial state needs none
// where nobody waits for room: it comes in one piece.
func (q *Queue[T]) fullLocked() bool {
	if q.opts.Every == 0 || q.stopped != nil {
		return false
	}
	if q.opts.WhenFull == Block {
		return q.total >= q.opts.Every
	}
	return q.total-(q.initial-q.telling) > q.opts.Every
}

// overflowLocked does what the policy says, and returns what is to be reported.
func (q *Queue[T]) overflowLocked() Trouble {
	t := Trouble{Err: fmt.Errorf("%d versions wait, %d may: %w", q.total-(q.initial-q.telling), q.opts.Every, ErrFull)}
	if q.opts.WhenFull == Fail {
		q.stopLocked(t.Err)
		t.Kind, t.Next = Stopped, "the handler is not called again"
		return t
	}
	q.restating = true
	for _, it := range q.items {
		q.total -= len(it.todo)
		q.initial -= it.restate()
		q.total += len(it.todo)
		if it.state == itemReady && len(it.todo) == 0 {
			q.dropLocked(it)
		}
	}
	t.Kind, t.Next = Restated, "merge, until half of it was told"
	return t
}

// roomLocked says that there may be room.
func (q *Queue[T]) roomLocked() {
	if q.opts.Every == 0 {
		return
	}
	if q.total <= q.opts.Every/2 {
		q.restating = false
	}
	close(q.room)
	q.room = make(chan struct{})
}

// WaitRoom blocks while the queue is full and who adds is to wait, at most until ctx ends.
func (q *Queue[T]) WaitRoom(ctx context.Context) {
	for {
		q.mu.Lock()
		full := q.opts.WhenFull == Block && q.fullLocked()
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
