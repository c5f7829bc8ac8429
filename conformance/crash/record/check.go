package record

import (
	"cmp"
	"slices"
)

// List is the answer of one LIST: the whole state of a scope at a resourceVersion.
type List struct {
	Scope Scope
	RV    int64
	Items []Version
	// Least is what Highest was before it was asked for. A storage that others write to goes on meanwhile.
	Least int64
}

// Listed notes a LIST of any kind. Whether it shows the state of its
// resourceVersion is compared at the next check, when all changes are known.
func (r *Record) Listed(l List, source string) {
	r.Versions(source, l.Items...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highLocked(l.RV)
	for i := range l.Items {
		l.Items[i].Pad = "" // was compared: keep no contents
	}
	r.lists = append(r.lists, l)
}

// Got notes a GET of the most recent state: v is nil for 404. before is what
// Known returned before it was sent.
func (r *Record) Got(k Key, v *Version, before Floor) {
	if v != nil {
		r.Versions("a GET", *v)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.totals.Gets++
	switch {
	case v != nil && v.RV < before.rv:
		r.violationLocked("a GET of %s shows %d, and %d was acknowledged before", k, v.RV, before.rv)
	case v == nil && before.rv != 0 && !r.gone(k, before):
		r.violationLocked("a GET of %s finds nothing, %d was acknowledged before and nobody deleted it", k, before.rv)
	}
}

// Floor is the last acknowledged content of a key at one moment.
type Floor struct {
	rv  int64
	uid string
}

// Known returns a key's floor now.
func (r *Record) Known(k Key) Floor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.keys[k]; h != nil {
		return Floor{h.acked.rv, h.acked.uid}
	}
	return Floor{}
}

// gone reports whether an object may have ended.
func (r *Record) gone(k Key, f Floor) bool {
	h := r.keys[k]
	return r.mayEndLocked(k, f.uid) || h.latest.deleted && h.latest.rv > f.rv
}

// Check compares all that was recorded with whole lists of the most recent state,
// one for each resource. There are no concurrent writes, every process that got a write
// of unknown outcome is dead, unless there are several servers, and every watch has come to its scope's last write.
func (r *Record) Check(states []List, watches []*Watch) {
	for _, w := range watches {
		w.mu.Lock() // the order is that of the slice, and no other code locks two
		defer w.mu.Unlock()
	}
	for _, s := range states {
		r.Versions("the LIST after a restart", s.Items...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.fresh)
	for _, s := range states {
		r.checkStateLocked(s, watches)
	}
	for _, w := range watches {
		r.checkWatchLocked(w, states)
	}
	for _, l := range r.lists {
		r.checkListLocked(l)
	}
	var last int64
	for _, s := range states {
		last = max(last, s.RV)
		r.checked[s.Scope.Resource] = s.RV
	}
	closed := r.open
	if r.several {
		closed = r.older
	}
	for _, a := range closed {
		a.closed = last
	}
	r.totals.Checks++
	r.fresh, r.lists, r.older, r.open = nil, nil, r.open, nil
	for k, all := range r.doubtful {
		r.doubtful[k] = slices.DeleteFunc(all, func(a *Attempt) bool { return !r.several || a.Start < r.last })
	}
	r.last = r.Now()
}

// checkStateLocked looks for every acknowledged write in a list of the present
// state, and for whatever else the list shows in the events.
func (r *Record) checkStateLocked(s List, watches []*Watch) {
	least := r.highest
	if r.several {
		least = s.Least
	}
	if s.RV < least {
		r.violationLocked("the LIST of %s is at %d, and %d had been given", s.Scope, s.RV, least)
	}
	hidden := r.hiddenLocked(s, watches)
	items := index(s.Items)
	for k, h := range r.keys {
		if k.Resource != s.Scope.Resource {
			continue
		}
		h.sort()
		v, exists := items[k]
		last := h.latest
		switch {
		case exists && (last.deleted || last.rv != v.RV):
			r.violationLocked("the LIST shows %s at %d; %d, attempt %d, deleted %v, is later",
				k, v.RV, last.rv, last.id, last.deleted)
		case exists:
			if by, gone := r.deleted[v.UID]; gone {
				r.violationLocked("the LIST shows %s at %d, UID %s, whose deletion by attempt %d was acknowledged",
					k, v.RV, v.UID, by)
			}
		case last.deleted:
		case !r.mayEndLocked(k, last.uid):
			r.violationLocked("the LIST lacks %s: attempt %d is at %d, %s, and nobody deleted it",
				k, last.id, last.rv, r.attempts[last.id-1].words())
		case !hidden:
			r.violationLocked("the LIST lacks %s, and no watcher saw the end of %d", k, last.rv)
		default: // it ended at some time that no watcher saw
			h.latest = change{rv: s.RV, key: k, uid: last.uid, id: last.id, deleted: true}
			h.changes = append(h.changes, h.latest)
		}
	}
}

func (a *Attempt) words() string {
	if a.Outcome == Acknowledged {
		return "acknowledged"
	}
	return "of unknown outcome but seen"
}

func (h *history) sort() {
	if !h.sorted {
		slices.SortFunc(h.changes, func(a, b change) int { return cmp.Compare(a.rv, b.rv) })
		h.sorted = true
	}
}

// hiddenLocked finds whether there is something since the last check that no
// watcher of the whole resource saw. If so, no list of the time from there on can
// be compared: what ended unseen is known to be gone only now.
func (r *Record) hiddenLocked(s List, watches []*Watch) bool {
	var spans []span
	for _, w := range watches {
		if w.Scope == s.Scope {
			spans = append(spans, w.spans...)
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	// Watchers receive nothing after the last change of their scope, which was
	// made for this check.
	end := r.checked[s.Scope.Resource]
	for _, rv := range slices.Backward(r.fresh) {
		if s.Scope.Has(r.byRV[rv].key) {
			end = max(end, rv)
			break
		}
	}
	at := r.checked[s.Scope.Resource]
	for _, next := range append(spans, span{end, end}) {
		if next.from > at {
			r.unseen[s.Scope.Resource] = append(r.unseen[s.Scope.Resource], span{at, s.RV})
			return true
		}
		at = max(at, next.to)
	}
	return false
}

// checkWatchLocked looks in a watch for every change of its scope that anybody
// knows of, and compares its fold with the list.
func (r *Record) checkWatchLocked(w *Watch, states []List) {
	for _, rv := range r.fresh {
		c := r.byRV[rv]
		if !w.Scope.Has(c.key) || !slices.ContainsFunc(w.spans, func(s span) bool { return s.from < rv && rv <= s.to }) {
			continue
		}
		if _, saw := slices.BinarySearch(w.seen, rv); !saw {
			r.violationLocked("%s missed %s at %d (attempt %d, deleted %v)", w.Name, c.key, rv, c.id, c.deleted)
		}
	}
	for _, s := range states {
		if s.Scope.Resource != w.Scope.Resource {
			continue
		}
		count := 0
		for _, v := range s.Items {
			if !w.Scope.Has(v.Key) {
				continue
			}
			count++
			if has := w.state[v.Key]; has.rv != v.RV || has.id != v.ID {
				r.violationLocked("%s has %s at %d, the LIST at %d shows it at %d", w.Name, v.Key, has.rv, s.RV, v.RV)
			}
		}
		if count != len(w.state) {
			r.violationLocked("%s has %d objects, the LIST at %d has %d", w.Name, len(w.state), s.RV, count)
		}
	}
	w.seen, w.spans = nil, nil
	if w.last != 0 {
		w.spans = []span{{w.last, w.last}}
	}
}

// checkListLocked compares a LIST with the fold of all changes up to it.
func (r *Record) checkListLocked(l List) {
	for _, s := range r.unseen[l.Scope.Resource] {
		if s.from < l.RV && l.RV < s.to {
			r.totals.ListsSkipped++
			return
		}
	}
	r.totals.Lists++
	items := index(l.Items)
	if len(items) != len(l.Items) {
		r.violationLocked("a LIST of %s at %d has an object twice", l.Scope, l.RV)
	}
	for k, h := range r.keys {
		if !l.Scope.Has(k) {
			continue
		}
		h.sort()
		at, found := slices.BinarySearchFunc(h.changes, l.RV, func(c change, rv int64) int { return cmp.Compare(c.rv, rv) })
		if found {
			at++
		}
		var want int64
		if at > 0 && !h.changes[at-1].deleted {
			want = h.changes[at-1].rv
		}
		if got := items[k].RV; got != want {
			r.violationLocked("a LIST of %s at %d shows %s at %d, want %d (0: not at all)", l.Scope, l.RV, k, got, want)
		}
	}
}

func index(items []Version) map[Key]Version {
	all := make(map[Key]Version, len(items))
	for _, v := range items {
		all[v.Key] = v
	}
	return all
}
