// Package ending ends together what belongs together.
package ending

import "sync"

// Ending is what ends together: all that a rule's action does to requests when the rule is
// removed, and all that is done to a server's requests when that stops. The zero value has not
// ended. It is safe for concurrent use.
type Ending struct {
	// mu guards what follows.
	mu    sync.Mutex
	ended bool
	undo  map[int]func()
	next  int
}

// At calls do at the end, unless forget is called before. After the end it calls do at once.
func (e *Ending) At(do func()) (forget func()) {
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		do()
		return func() {}
	}
	defer e.mu.Unlock()
	if e.undo == nil {
		e.undo = map[int]func(){}
	}
	id := e.next
	e.next++
	e.undo[id] = do
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.undo, id)
	}
}

// End ends it, once.
func (e *Ending) End() {
	e.mu.Lock()
	e.ended = true
	undo := e.undo
	e.undo = nil
	e.mu.Unlock()
	for _, do := range undo {
		do()
	}
}
