package watchcache

import (
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/selection"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// index holds the cursors that have read everything and wait. Each waits at one
// place, the most selective requirement of its selection: an object's name, a value
// of a field or a label, a namespace. So a change costs only the cursors that it may
// match, and a cursor that is woken late knows that it missed no entry before.
//
// An append only starts a goroutine that looks up the new entries, if none is running:
// it costs the same for one cursor and for ten thousand, and entries that are
// appended meanwhile are looked up together.
type index struct {
	cache   *Cache
	pending atomic.Int64  // appends that look has not seen
	epoch   atomic.Uint64 // counts events that every waiter must check
	ever    atomic.Int64  // wakings

	// mu guards what follows.
	mu      sync.Mutex
	through kube.ResourceVersion // entries up to here were looked up
	seen    uint64               // the epoch at the last look
	places  map[place]*bucket
	count   int             // waiters
	kinds   [placeKinds]int // waiters by the kind of their place
	fields  map[string]int  // places by their field label
	woken   []*waiter       // scratch memory of look
	pace    pace
}

// place is where a waiter is found.
type place struct {
	kind         placeKind
	label, value string
}

type placeKind int

// The kinds of places, the most selective first.
const (
	byKey       placeKind = iota // value: Key.String()
	byName                       // value: the name, in any namespace
	byField                      // a selectable field that must have a value
	byLabel                      // a label that must have a value
	byNamespace                  // value: the namespace
	anywhere
	placeKinds
)

// bucket holds the waiters of one place.
type bucket struct{ waiters []*waiter }

// waiter is a cursor in the index.
type waiter struct {
	place place
	sel   *Selection
	woken chan struct{}        // capacity 1; one token for each removal by look
	pos   kube.ResourceVersion // the cursor has considered everything up to here
	hit   kube.ResourceVersion // the first entry after pos that matches, 0 if unknown
	in    *bucket              // nil when it does not wait
	at    int                  // its place in the bucket
}

func newIndex(c *Cache) *index {
	return &index{cache: c, places: map[place]*bucket{}, fields: map[string]int{}}
}

// placeOf returns the most selective place of a selection.
func placeOf(s *Selection) place {
	switch {
	case s.Name != "" && s.Namespace != "":
		return place{kind: byKey, value: wire.Key{Namespace: s.Namespace, Name: s.Name}.String()}
	case s.Name != "":
		return place{kind: byName, value: s.Name}
	}
	if s.Fields != nil {
		for _, r := range s.Fields.Requirements() {
			if r.Operator == selection.Equals || r.Operator == selection.DoubleEquals {
				return place{kind: byField, label: r.Field, value: r.Value}
			}
		}
	}
	if s.Labels != nil {
		requirements, selectable := s.Labels.Requirements()
		for _, r := range requirements {
			if values := r.ValuesUnsorted(); selectable && len(values) == 1 && isEquality(r.Operator()) {
				return place{kind: byLabel, label: r.Key(), value: values[0]}
			}
		}
	}
	if s.Namespace != "" {
		return place{kind: byNamespace, value: s.Namespace}
	}
	return place{kind: anywhere}
}

func isEquality(op selection.Operator) bool {
	return op == selection.Equals || op == selection.DoubleEquals || op == selection.In
}

// enter lets w wait, unless there is something new since the epoch was loaded,
// and after it the state: then it returns false.
func (x *index) enter(w *waiter, epoch uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	st := x.cache.state.Load()
	if x.epoch.Load() != epoch || st.last > w.pos || st.log.gone > w.pos {
		return false
	}
	b := x.places[w.place]
	if b == nil {
		b = &bucket{}
		x.places[w.place] = b
		if w.place.kind == byField {
			x.fields[w.place.label]++
		}
	}
	w.hit, w.in, w.at = 0, b, len(b.waiters)
	b.waiters = append(b.waiters, w)
	x.kinds[w.place.kind]++
	x.count++
	return true
}

// leave removes a waiter whose context has ended. It returns false if look has
// removed it already: then a token comes. Otherwise no entry up to the returned
// resourceVersion matched it.
func (x *index) leave(w *waiter) (through kube.ResourceVersion, waited bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w.in == nil {
		return 0, false
	}
	x.takeLocked(w)
	checkSkipped(x.cache.state.Load().log, w, x.through)
	return x.through, true
}

func (x *index) takeLocked(w *waiter) {
	b, last := w.in, len(w.in.waiters)-1
	b.waiters[w.at] = b.waiters[last]
	b.waiters[w.at].at = w.at
	b.waiters[last] = nil
	b.waiters = b.waiters[:last]
	w.in = nil
	x.kinds[w.place.kind]--
	x.count--
	if last > 0 || w.place.kind == anywhere {
		return
	}
	delete(x.places, w.place)
	if w.place.kind != byField {
		return
	}
	if x.fields[w.place.label]--; x.fields[w.place.label] == 0 {
		delete(x.fields, w.place.label)
	}
}

// notify is called after entries were appended.
func (x *index) notify() {
	if x.pending.Add(1) == 1 {
		go x.dispatch() // ends when all appended entries were looked up; it never blocks for long
	}
}

// wakeAll is called after an event that every waiter must check.
func (x *index) wakeAll() {
	x.epoch.Add(1)
	x.notify()
}

// dispatch looks up appended entries until there are no more.
func (x *index) dispatch() {
	for {
		seen := x.pending.Load()
		woken := x.look()
		x.ever.Add(int64(len(woken)))
		for _, w := range woken {
			w.woken <- struct{}{} // has room: it was removed once
		}
		if x.pending.CompareAndSwap(seen, 0) {
			return
		}
	}
}

// look removes and returns the waiters that a new entry matches. The next call
// reuses the slice.
func (x *index) look() []*waiter {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.woken)
	x.woken = x.woken[:0]
	st := x.cache.state.Load()
	if epoch := x.epoch.Load(); epoch != x.seen || x.through < st.log.gone {
		x.seen = epoch
		for _, b := range x.places {
			x.wakeLocked(b, nil)
		}
	}
	if x.count > 0 {
		for e := range st.log.after(max(x.through, st.log.gone)) {
			x.findLocked(e)
		}
	}
	x.through = max(x.through, st.last)
	return x.woken
}

// findLocked removes the waiters that e matches.
func (x *index) findLocked(e *Entry) {
	x.wakeLocked(x.places[place{kind: anywhere}], e)
	key := e.Object.Key()
	if x.kinds[byKey] > 0 {
		x.wakeLocked(x.places[place{kind: byKey, value: key.String()}], e)
	}
	if x.kinds[byName] > 0 {
		x.wakeLocked(x.places[place{kind: byName, value: key.Name}], e)
	}
	if x.kinds[byNamespace] > 0 {
		x.wakeLocked(x.places[place{kind: byNamespace, value: key.Namespace}], e)
	}
	for _, o := range [...]*wire.Object{e.Object, e.Previous} {
		if o == nil {
			continue
		}
		if x.kinds[byField] > 0 {
			view := formOf(o, x.cache.readForm).Fields()
			for label := range x.fields {
				x.wakeLocked(x.places[place{kind: byField, label: label, value: view.Get(label)}], e)
			}
		}
		if x.kinds[byLabel] > 0 {
			for label, value := range o.Labels() {
				x.wakeLocked(x.places[place{kind: byLabel, label: label, value: value}], e)
			}
		}
	}
}

// wakeLocked removes the waiters of a bucket that e matches; nil matches all.
func (x *index) wakeLocked(b *bucket, e *Entry) {
	if b == nil {
		return
	}
	for _, w := range slices.Backward(b.waiters) { // removing one moves the last into its place
		if e != nil {
			if e.RV <= w.pos || w.sel.transition(e) == 0 {
				continue
			}
			w.hit = e.RV
		}
		x.takeLocked(w)
		x.woken = append(x.woken, w)
	}
}
