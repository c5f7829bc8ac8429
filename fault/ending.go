package fault

import "sync"

// ending is what ends together: all that a rule's action does to requests when the rule is
// removed, and all that is done to a server's requests when that stops. The zero value has not
// ended. It is safe for concurrent use.
type ending struct {
	// mu guards what follows.
	mu    sync.Mutex
	ended bool
	undo  map[int]func()
	next  int
}

// at calls do at the end, unless forget is called before. After the end it calls do at once.
func (e *ending) at(do func()) (forget func()) {
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

// end ends it, once.
func (e *ending) end() {
	e.mu.Lock()
	e.ended = true
	undo := e.undo
	e.undo = nil
	e.mu.Unlock()
	for _, do := range undo {
		do()
	}
}
