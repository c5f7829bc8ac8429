package harness

import (
	"fmt"
	"maps"
	"strconv"
	"sync"
)

// Witness records the calls of a handler, and the violations among them: an older
// version after a newer one, an update from a version that the handler did not see, an
// addition of an object that exists, a deletion of one that does not.
type Witness struct {
	mu sync.Mutex
	// mu guards all below.
	state      map[string]string          // key to the resource version seen last
	newest     map[string]uint64          // also of deleted ones
	seen       map[string]map[string]bool // key to resource versions
	violations []string
	calls      int
	repeats    int
	again      bool // whether a deletion may come again
}

// NewWitness returns a witness without calls.
func NewWitness() *Witness {
	return &Witness{state: map[string]string{}, newest: map[string]uint64{}, seen: map[string]map[string]bool{}}
}

// Added is for OnAdd and its like.
func (w *Witness) Added(key, rv string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, there := w.state[key]; there {
		w.violateLocked("%s added at %s, but the handler has it at %s", key, rv, was)
	}
	w.sawLocked(key, rv)
	w.state[key] = rv
}

// Updated is for OnUpdate and its like.
func (w *Witness) Updated(key, from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was := w.state[key]; was != from {
		w.violateLocked("%s updated from %s to %s, but the handler has it at %q", key, from, to, was)
	}
	if from == to {
		w.repeats++
	}
	w.sawLocked(key, to)
	w.state[key] = to
}

// Deleted is for OnDelete and its like, with the version that came with it.
func (w *Witness) Deleted(key, rv string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, there := w.state[key]
	if !there && !(w.again && w.newest[key] > 0) {
		w.violateLocked("%s deleted at %s, but the handler does not have it", key, rv)
	}
	if there && was == rv { // inferred from a list: the version may be one of before a restore
		w.calls++
	} else {
		w.sawLocked(key, rv)
	}
	delete(w.state, key)
}

func (w *Witness) sawLocked(key, rv string) {
	w.calls++
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		w.violateLocked("%s has resource version %q", key, rv)
		return
	}
	if n < w.newest[key] {
		w.violateLocked("%s at %d after %d", key, n, w.newest[key])
	}
	w.newest[key] = max(n, w.newest[key])
	if w.seen[key] == nil {
		w.seen[key] = map[string]bool{}
	}
	w.seen[key][rv] = true
}

func (w *Witness) violateLocked(format string, args ...any) {
	if len(w.violations) < 20 {
		w.violations = append(w.violations, fmt.Sprintf(format, args...))
	}
}

// Restored forgets which versions it has seen: those of a restored server are lower, and are used again.
func (w *Witness) Restored() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest, w.seen = map[string]uint64{}, map[string]map[string]bool{}
}

// DeletedAgain says whether what is deleted may be deleted again from now on: a relay that has to list says first, with
// the last version before, what is gone. Who is cut off then hears it again, of another relay perhaps with its version.
func (w *Witness) DeletedAgain(may bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.again = may
}

// State returns the state that the handler's calls add up to.
func (w *Witness) State() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.state)
}

// Saw reports whether the handler saw a version.
func (w *Witness) Saw(key, rv string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[key][rv]
}

// Calls returns how many calls there were.
func (w *Witness) Calls() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls
}

// Violations returns the first 20 violations.
func (w *Witness) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.violations...)
}

// String returns the number of calls, and of those for unchanged objects.
func (w *Witness) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%d handler calls, %d of them for unchanged objects", w.calls, w.repeats)
}
