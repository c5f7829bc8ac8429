package queue

import (
	"time"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

// pending is one delivery that waits: the object is in state new or, if new is zero, was
// deleted.
type pending[T handle.Object] struct {
	new, last handle.Handle[T]
	rv        string
	since     time.Time // when the oldest change in it was added; zero: it is not a change
	merged    int
	initial   bool
	inferred  bool
	resync    bool // nothing changed; a zero new says that there is no object
	// must says that it is delivered whatever Filter.Differs says: it was enqueued
	// explicitly, or another object has the name now.
	must bool
	// counts says that Synced waits for it.
	counts bool
}

// changes is how many changes p stands for.
func (p *pending[T]) changes() int {
	if p.resync {
		return p.merged
	}
	return p.merged + 1
}

// over merges last, which p replaces, into p. It returns how many initial objects are not
// delivered because of that.
func (p *pending[T]) over(last pending[T]) (dropped int) {
	p.merged += last.changes()
	p.must = p.must || last.must
	if !last.since.IsZero() {
		p.since = last.since
	}
	var none handle.Handle[T]
	switch {
	case p.new != none:
		if p.counts && last.counts {
			dropped = 1
		}
		p.initial, p.counts = p.initial || last.initial, p.counts || last.counts
	case last.counts:
		dropped = 1
	}
	return dropped
}

// merging says how changes of a key that waits are merged.
type merging int

const (
	mergeNothing merging = iota // each version is delivered
	mergeStates                 // the newest state, and before it a deletion
	mergeKeys                   // one delivery
)

// itemState says where an item is.
type itemState int

const (
	itemReady   itemState = iota // in the queue's ready list
	itemActive                   // a worker has it
	itemDelayed                  // it failed and waits for its retry
)

// item is one key that the handler has not handled.
type item[T handle.Object] struct {
	key   handle.Key
	state itemState
	// seen is the state that the handler handled last, or that was filtered out.
	seen handle.Handle[T]
	todo []pending[T] // oldest first
	work *work[T]     // nil until a worker takes it: most items of a long queue need none

	before, behind *item[T] // in the line of ready items
}

// work is the part of an item that its calls need.
type work[T handle.Object] struct {
	// shown is a state that was delivered after seen and not handled.
	shown handle.Handle[T]
	// owes says that a call for this key began and did not succeed since.
	owes bool
	// current is the state that is being delivered while the item is active, and since the
	// time of its change.
	current  handle.Handle[T]
	since    time.Time
	attempts int
	due      time.Time // of itemDelayed
	place    int       // in the heap of delayed items
}

// put appends p to the deliveries that wait. Merged deliveries lead from the state that
// the handler saw to the newest one, without those between. It returns how many initial
// objects are not delivered because of that.
func (it *item[T]) put(p pending[T], m merging) (dropped int) {
	var none handle.Handle[T]
	if m == mergeNothing || len(it.todo) == 0 {
		it.todo = append(it.todo, p)
		return 0
	}
	last := &it.todo[len(it.todo)-1]
	switch {
	case last.new == none && m == mergeStates: // deleted and created again: both are delivered
		it.todo = append(it.todo, p)
		return 0
	case p.new != none:
		p.must = p.must || last.new == none
		dropped = p.over(*last)
		*last = p
		return dropped
	}
	dropped = p.over(*last)
	it.todo = it.todo[:len(it.todo)-1]
	if len(it.todo) > 0 {
		it.todo[len(it.todo)-1].merged += p.merged + 1
		return dropped // there is a deletion already
	}
	if !it.known() && (m != mergeKeys || !p.must) {
		return dropped
	}
	it.todo = append(it.todo, p)
	return dropped
}

// known reports whether the handler knows that the object exists, or is being called
// with it.
func (it *item[T]) known() bool {
	var none handle.Handle[T]
	if it.state == itemActive {
		return it.work.current != none // after that call
	}
	return it.seen != none || it.work != nil && it.work.shown != none
}

// again puts a failed delivery in front of those that were added meanwhile.
func (it *item[T]) again(p pending[T], m merging) (dropped int) {
	later := it.todo
	it.todo = append(make([]pending[T], 0, 1+len(later)), p)
	for _, l := range later {
		dropped += it.put(l, m)
	}
	return dropped
}

// mergeWaiting merges the versions that wait.
func (it *item[T]) mergeWaiting() (dropped int) {
	versions := it.todo
	it.todo = nil
	for _, v := range versions {
		dropped += it.put(v, mergeStates)
	}
	return dropped
}

// delivery returns what the handler gets for p.
func (it *item[T]) delivery(p pending[T]) Delivery[T] {
	var none handle.Handle[T]
	e := Delivery[T]{
		Key: it.key, Old: it.seen, New: p.new, RV: p.rv,
		Initial: p.initial, Inferred: p.inferred, Merged: p.merged, Attempt: it.work.attempts,
	}
	switch {
	case p.resync && p.new == none:
		e.Kind, e.Old = Resync, none
	case p.new == none:
		e.Kind = Deleted
		switch {
		case p.last != none:
			e.Old = p.last
		case it.seen == none:
			e.Old = it.work.shown
		}
	case it.seen == none:
		e.Kind = Added
	case p.resync && it.seen == p.new:
		e.Kind = Resync
	default:
		e.Kind = Modified
	}
	return e
}
