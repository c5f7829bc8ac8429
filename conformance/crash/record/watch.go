package record

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
)

// Scope is what a LIST or a watch selects; an empty namespace is all of them.
type Scope struct{ Resource, Namespace string }

// Has reports whether a scope selects a key.
func (s Scope) Has(k Key) bool {
	return s.Resource == k.Resource && (s.Namespace == "" || s.Namespace == k.Namespace)
}

// String is for messages.
func (s Scope) String() string {
	if s.Namespace == "" {
		return s.Resource
	}
	return s.Resource + " in " + s.Namespace
}

// span is the changes after from, up to and including to.
type span struct{ from, to int64 }

// Watch is what one watcher saw, over all its streams. One goroutine feeds it.
type Watch struct {
	Name  string
	Scope Scope
	r     *Record

	mu sync.Mutex
	// mu guards what follows. It is taken before the record's.
	state map[Key]change // the fold of the list and the events
	last  int64          // where the next stream resumes; 0 is nowhere
	spans []span         // since the last check: what it claims to have seen all of
	seen  []int64        // since the last check: what it saw

	server string // of the stream, by its URL
	began  int64  // where the stream began
}

// Watch prepares the record of a watcher.
func (r *Record) Watch(name string, scope Scope) *Watch {
	return &Watch{Name: name, Scope: scope, r: r}
}

// Last returns where to resume, or 0 if it has to list first.
func (w *Watch) Last() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Begin notes that a stream of a server begins.
func (w *Watch) Begin(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.began = server, w.last
}

// Listed starts again from a whole state: at first, and after a gap.
func (w *Watch) Listed(rv int64, items []Version) {
	w.r.Versions(w.Name+", list", items...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, span := range w.spans {
		if rv < span.to {
			w.r.Violation("%s: a list after a gap is at %d, and the watch had been at %d", w.Name, rv, span.to)
		}
	}
	w.state = make(map[Key]change, len(items))
	for _, v := range items {
		if v.RV > rv || !w.Scope.Has(v.Key) {
			w.r.Violation("%s: a list at %d of %s has %s at %d", w.Name, rv, w.Scope, v.Key, v.RV)
		}
		w.state[v.Key] = change{rv: v.RV, key: v.Key, uid: v.UID, id: v.ID}
	}
	w.last, w.began = rv, rv
	w.spans = append(w.spans, span{rv, rv})
}

// tooOld is how a 410 names what was asked for, and the floor: what was removed
// last. Everything above the floor is there.
var tooOld = regexp.MustCompile(`too old resource version: (\d+) \((\d+)\)`)

// Gap notes that a server answered 410 with a message: the next thing is a list.
func (w *Watch) Gap(server, message string) {
	w.mu.Lock()
	if said := tooOld.FindStringSubmatch(message); said == nil {
		w.r.Violation("%s at %d: 410 does not say what is too old: %q", w.Name, w.last, message)
	} else if floor, err := strconv.ParseInt(said[2], 10, 64); err != nil || floor <= w.last {
		w.r.Violation("%s at %d: 410, although nothing above it was removed: %q", w.Name, w.last, message)
	} else if !w.r.justifies(server, w.last, floor) {
		w.r.Violation("%s at %d: 410 of %s, which has missed nothing there: %q", w.Name, w.last, server, message)
	}
	w.last = 0
	w.mu.Unlock()
	w.r.Count(func(t *Totals) { t.Gaps++ })
}

// Bookmark notes that nothing else happened up to a resourceVersion.
func (w *Watch) Bookmark(rv int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rv < w.last {
		w.r.Violation("%s: a bookmark at %d after %d", w.Name, rv, w.last)
		return
	}
	w.advanceLocked(rv)
	w.r.high(rv)
}

// advanceLocked moves to where everything was seen, besides what is inside a hole.
func (w *Watch) advanceLocked(rv int64) {
	inside := false
	for _, h := range w.r.crossed(w.server, w.began, w.last, rv-1) {
		if n := len(w.spans); n > 0 && w.last <= h.From {
			w.spans[n-1].to = h.From
		}
		if inside = rv < h.To; !inside {
			w.spans = append(w.spans, span{h.To, rv})
		}
	}
	w.last = rv
	if n := len(w.spans); n > 0 && !inside {
		w.spans[n-1].to = rv
	}
}

// Event notes ADDED, MODIFIED or DELETED, and compares it with the fold of what
// came before.
func (w *Watch) Event(kind string, v Version) {
	source := fmt.Sprintf("%s of %s at %s", kind, w.Name, w.server)
	w.mu.Lock()
	defer w.mu.Unlock()
	holes := w.r.crossed(w.server, w.began, w.last, v.RV)
	between := len(holes) > 0 && v.RV <= holes[len(holes)-1].To
	switch {
	case kind != "DELETED":
		w.r.Versions(source, v)
	case between && (v.RV > holes[0].From || v.RV == w.last):
		w.r.endInHole(v, source)
	default:
		w.r.End(v, source)
	}
	w.r.Count(func(t *Totals) { t.Events++ })
	if v.RV < w.last || v.RV == w.last && !(between && kind == "DELETED") {
		w.r.Violation("%s: %s at %d comes after %d", source, v.Key, v.RV, w.last)
		return
	}
	if !w.Scope.Has(v.Key) {
		w.r.Violation("%s: %s at %d is not selected by %s", source, v.Key, v.RV, w.Scope)
	}
	was, exists := w.state[v.Key]
	switch {
	case kind == "ADDED" && exists:
		w.r.Violation("%s: %s at %d exists since %d", source, v.Key, v.RV, was.rv)
	case kind != "ADDED" && !exists:
		w.r.Violation("%s: %s at %d does not exist", source, v.Key, v.RV)
	case kind == "MODIFIED" && was.uid != v.UID:
		w.r.Violation("%s: %s at %d has UID %s, before it had %s", source, v.Key, v.RV, v.UID, was.uid)
	case kind == "DELETED" && (was.uid != v.UID || was.id != v.ID):
		w.r.Violation("%s: %s at %d shows attempt %d, UID %s; the last content was attempt %d, UID %s",
			source, v.Key, v.RV, v.ID, v.UID, was.id, was.uid)
	}
	if kind == "DELETED" {
		delete(w.state, v.Key)
	} else {
		w.state[v.Key] = change{rv: v.RV, key: v.Key, uid: v.UID, id: v.ID}
	}
	w.seen = append(w.seen, v.RV)
	w.advanceLocked(v.RV)
}
