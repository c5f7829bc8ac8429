package queue

import (
	"context"
	"fmt"

	"github.com/gapless-io/gapless/informer/internal/incident"
)

// Policy says what happens when a queue that keeps every version is full.
type Policy int

// The policies: the caller of Add waits for room first (see WaitRoom); waiting versions
// are merged until half of the room is free; the queue is stopped.
const (
	Block Policy = iota
	Merge
	Fail
)

// mergingLocked says how changes of a key that waits are merged.
func (q *Queue[T]) mergingLocked() merging {
	switch {
	case q.opts.KeysOnly:
		return mergeKeys
	case q.opts.Every == 0 || q.overfull:
		return mergeStates
	}
	return mergeNothing
}

// fullLocked reports whether there is no room for another version. Initial objects need
// no room unless the policy is Block: they are added all at once.
func (q *Queue[T]) fullLocked() bool {
	if q.opts.Every == 0 || q.stopped != nil {
		return false
	}
	if q.opts.WhenFull == Block {
		return q.total >= q.opts.Every
	}
	return q.total-(q.initial-q.delivering) > q.opts.Every
}

// overflowLocked applies the policy and returns the incident.
func (q *Queue[T]) overflowLocked() incident.Incident {
	t := incident.Incident{
		Err: fmt.Errorf("%d versions wait, %d may: %w", q.total-(q.initial-q.delivering), q.opts.Every, q.opts.ErrFull),
	}
	if q.opts.WhenFull == Fail {
		q.stopLocked(t.Err)
		t.Kind, t.Next = incident.HandlerStopped, "the handler is not called again"
		return t
	}
	q.overfull = true
	for _, it := range q.items {
		q.total -= len(it.todo)
		q.initial -= it.mergeWaiting()
		q.total += len(it.todo)
		if it.state == itemReady && len(it.todo) == 0 {
			q.dropLocked(it)
		}
	}
	t.Kind, t.Next = incident.HandlerMerged, "merge, until half of the versions are delivered"
	return t
}

// roomLocked wakes callers of WaitRoom.
func (q *Queue[T]) roomLocked() {
	if q.opts.Every == 0 {
		return
	}
	if q.total <= q.opts.Every/2 {
		q.overfull = false
	}
	close(q.room)
	q.room = make(chan struct{})
}

// WaitRoom blocks while the queue is full under the policy Block, until ctx ends.
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
