package record

import (
	"slices"
	"strconv"
	"strings"
)

// Begin notes that a write is about to be sent.
func (r *Record) Begin(a Attempt) *Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.ID = int64(len(r.attempts)) + 1
	a.Start = r.Now()
	r.attempts = append(r.attempts, &a)
	r.totals.Attempts++
	if a.Kind.Deletes() {
		r.doubtful[a.Key] = append(r.doubtful[a.Key], &a)
	}
	return &a
}

// Content returns what an attempt writes besides its number. It is made from the
// number, so that a content of another write or of a part of one is noticed.
func (a *Attempt) Content() string { return pad(a.ID, a.Size) }

func pad(id int64, size int) string {
	u := unit(id)
	return strings.Repeat(u, size/len(u)+1)[:size]
}

func unit(id int64) string { return strconv.FormatInt(id*2654435761%1_000_000_007, 36) + "." }

// isPad reports whether a text is pad(id, size).
func isPad(text string, id int64, size int) bool {
	if len(text) != size {
		return false
	}
	for u := unit(id); text != ""; text = text[min(len(u), len(text)):] {
		if !strings.HasPrefix(text, u) && !strings.HasPrefix(u, text) {
			return false
		}
	}
	return true
}

// Written notes that the server acknowledged a content. floor is what Highest was
// before the write was sent.
func (r *Record) Written(a *Attempt, v Version, floor int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Outcome, a.End = Acknowledged, r.Now()
	r.totals.Acknowledged++
	if v.ID != a.ID || v.Key != a.Key {
		r.violationLocked("%s %s, attempt %d: the answer shows %s with the content of attempt %d",
			a.Kind, a.Key, a.ID, v.Key, v.ID)
	}
	if v.RV <= floor {
		r.violationLocked("%s %s, attempt %d: acknowledged at %d, although %d had been given before it was sent",
			a.Kind, a.Key, a.ID, v.RV, floor)
	}
	if a.Kind == Update && v.RV <= a.If {
		r.violationLocked("%s %s, attempt %d: acknowledged at %d, which is not after its precondition %d",
			a.Kind, a.Key, a.ID, v.RV, a.If)
	}
	a.UID = v.UID
	r.versionLocked(v, "the answer of its write")
	if h := r.keys[a.Key]; h != nil && v.RV > h.acked.rv {
		h.acked = change{rv: v.RV, key: a.Key, uid: v.UID, id: a.ID}
	}
}

// Removed notes that the server acknowledged a deletion of the object with a UID.
func (r *Record) Removed(a *Attempt, uid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Outcome, a.End, a.UID = Acknowledged, r.Now(), uid
	r.totals.Acknowledged++
	if uid == "" {
		r.violationLocked("%s %s, attempt %d: the answer names no UID", a.Kind, a.Key, a.ID)
		return
	}
	if other, twice := r.deleted[uid]; twice {
		r.violationLocked("%s %s, attempt %d: object %s was deleted already by attempt %d", a.Kind, a.Key, a.ID, uid, other)
	}
	r.deleted[uid] = a.ID
}

// Refuse notes that the server said it did nothing.
func (r *Record) Refuse(a *Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Outcome, a.End = Refused, r.Now()
	r.totals.Refused++
	if a.RV != 0 {
		r.violationLocked("%s %s, attempt %d: refused, but its content was seen at %d", a.Kind, a.Key, a.ID, a.RV)
	}
	if a.Kind.Deletes() {
		r.doubtful[a.Key] = slices.DeleteFunc(r.doubtful[a.Key], func(d *Attempt) bool { return d == a })
	}
}

// Unsent notes that there was no server to send a write to.
func (r *Record) Unsent(a *Attempt) {
	r.Refuse(a)
	r.Count(func(t *Totals) {
		t.Refused--
		t.Unsent++
	})
}

// Doubt notes that the outcome of a write is unknown.
func (r *Record) Doubt(a *Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.totals.Unknown++
	r.open = append(r.open, a)
}

// Versions notes versions that an answer or an event showed.
func (r *Record) Versions(source string, versions ...Version) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range versions {
		r.versionLocked(v, source)
	}
}

// versionLocked checks a version against all that is known of its resourceVersion
// and of its writer.
func (r *Record) versionLocked(v Version, source string) {
	r.highLocked(v.RV)
	was, known := r.byRV[v.RV]
	if known && (was.key != v.Key || was.id != v.ID || was.deleted || was.uid != v.UID) {
		r.violationLocked("resourceVersion %d is %s, attempt %d, UID %s in %s; before it was %s, attempt %d, UID %s, deleted %v",
			v.RV, v.Key, v.ID, v.UID, source, was.key, was.id, was.uid, was.deleted)
		return
	}
	if v.ID < 1 || v.ID > int64(len(r.attempts)) {
		r.violationLocked("%s at %d in %s has a content that nobody wrote: attempt %d", v.Key, v.RV, source, v.ID)
		return
	}
	a := r.attempts[v.ID-1]
	if a.Key != v.Key || a.Kind.Deletes() || !isPad(v.Pad, a.ID, a.Size) {
		r.violationLocked("%s at %d in %s has %d bytes that are not those of attempt %d, a %s of %s with %d bytes",
			v.Key, v.RV, source, len(v.Pad), a.ID, a.Kind, a.Key, a.Size)
		return
	}
	if a.Outcome == Refused {
		r.violationLocked("%s at %d in %s has the content of attempt %d, which was refused", v.Key, v.RV, source, a.ID)
	}
	if a.closed > 0 && v.RV > a.closed {
		r.violationLocked("attempt %d, %s of %s, took effect at %d, after its process had been killed and the next one was at %d",
			a.ID, a.Kind, a.Key, v.RV, a.closed)
	}
	if a.RV != 0 && a.RV != v.RV {
		r.violationLocked("attempt %d, %s of %s, is at %d in %s and was at %d before", a.ID, a.Kind, a.Key, v.RV, source, a.RV)
	}
	if !known {
		a.RV = v.RV
		r.addLocked(change{rv: v.RV, key: v.Key, uid: v.UID, id: v.ID})
	}
}

// End notes that an event showed the deletion of an object: v has the last
// content and the deletion's resourceVersion.
func (r *Record) End(v Version, source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.highLocked(v.RV)
	was, known := r.byRV[v.RV]
	if known {
		if was.key != v.Key || !was.deleted || was.uid != v.UID || was.id != v.ID {
			r.violationLocked(
				"resourceVersion %d is the deletion of %s, UID %s, in %s; before it was %s, attempt %d, UID %s, deleted %v",
				v.RV, v.Key, v.UID, source, was.key, was.id, was.uid, was.deleted)
		}
		return
	}
	if rv, twice := r.ended[v.UID]; twice {
		r.violationLocked("%s, UID %s, is deleted at %d in %s and was at %d before", v.Key, v.UID, v.RV, source, rv)
	}
	r.ended[v.UID] = v.RV
	if v.ID < 1 || v.ID > int64(len(r.attempts)) || r.attempts[v.ID-1].Key != v.Key ||
		!isPad(v.Pad, v.ID, r.attempts[v.ID-1].Size) {
		r.violationLocked("%s is deleted at %d in %s with a last content that nobody wrote: attempt %d",
			v.Key, v.RV, source, v.ID)
	}
	if !r.mayEndLocked(v.Key, v.UID) {
		r.violationLocked("%s, UID %s, is deleted at %d in %s, and nobody deleted it", v.Key, v.UID, v.RV, source)
	}
	r.addLocked(change{rv: v.RV, key: v.Key, uid: v.UID, id: v.ID, deleted: true})
}

// mayEndLocked reports whether a deletion that could have met an object was
// acknowledged or is of unknown outcome.
func (r *Record) mayEndLocked(k Key, uid string) bool {
	if _, done := r.deleted[uid]; done {
		return true
	}
	return slices.ContainsFunc(r.doubtful[k], func(a *Attempt) bool { return a.Outcome == Unknown })
}
