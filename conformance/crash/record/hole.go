package record

import "slices"

// Hole is what a server was away for when the storage removed it: the changes after From and up to To, of
// which it knows only what came of them. It shows deletions at or after From, and each changed object at its
// own resourceVersion.
type Hole struct {
	Server   string // its URL
	From, To int64
}

// has reports whether what begins at a resourceVersion would need what is not there.
func (h Hole) has(rv int64) bool { return h.From < rv && rv < h.To }

// Hole notes a hole before the server is asked again.
func (r *Record) Hole(h Hole) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holes = append(r.holes, h)
}

// Expired notes that a server answered a list of a resourceVersion with 410.
func (r *Record) Expired(server string, rv int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.totals.Expired++
	if r.several && !slices.ContainsFunc(r.holes, func(h Hole) bool { return h.Server == server && h.has(rv) }) {
		r.violationLocked("a list at %d: 410 of %s, which has missed nothing there", rv, server)
	}
}

// justifies reports whether a watch from a resourceVersion could be answered with 410 and a floor.
func (r *Record) justifies(server string, rv, floor int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.several || slices.ContainsFunc(r.holes, func(h Hole) bool {
		return h.Server == server && h.has(rv) && h.To == floor
	})
}

// crossed returns the holes that a stream of a server goes through which began at one resourceVersion, has
// come to another one, and comes to a third.
func (r *Record) crossed(server string, began, last, next int64) []Hole {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Hole
	for _, h := range r.holes {
		if h.Server == server && began <= h.From && last < h.To && next >= h.From {
			all = append(all, h)
		}
	}
	return all
}

// endInHole notes a deletion of which it is only known that it was inside a hole.
func (r *Record) endInHole(v Version, source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mayEndLocked(v.Key, v.UID) && r.ended[v.UID] == 0 {
		r.violationLocked("%s, UID %s, is deleted in %s, and nobody deleted it", v.Key, v.UID, source)
	}
}
