package record

import "slices"

// Hole is what a server was away for when the storage removed it: the changes after From and up to To, of
// which it knows only what came of them. It shows deletions first, at From, so that who is cut off between two of
// them gets the others, and then each changed object at its own resourceVersion.
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

// isEnd reports whether a deletion is known to be at its resourceVersion, and whether anything is.
func (r *Record) isEnd(v Version) (is, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, known := r.byRV[v.RV]
	return was.deleted && was.key == v.Key && was.uid == v.UID, known
}

// endInHole notes a deletion of which it is only known that it was inside a hole.
func (r *Record) endInHole(v Version, source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mayEndLocked(v.Key, v.UID) && r.ended[v.UID] == 0 {
		r.violationLocked("%s, UID %s, is deleted in %s, and nobody deleted it", v.Key, v.UID, source)
	}
}

// passage is where a watcher is between the ends of a hole. It lacks what other servers show before, and has what they
// show later, if it goes on at one of them.
type passage struct {
	hole   Hole           // zero: it is in none
	gone   map[string]int // UIDs of the objects whose end the hole has shown, and in which stream
	stream int            // its number
	fresh  bool           // the stream has shown something of the hole
	left   int64          // where the stream ended that had
}

// into notes that an event in a hole was seen.
func (p *passage) into(h Hole, kind string, v Version) {
	if p.hole != h {
		*p = passage{hole: h, gone: map[string]int{}}
	}
	p.fresh = true
	if kind == "DELETED" {
		p.gone[v.UID] = p.stream
	}
}

// begin notes that another stream begins.
func (p *passage) begin(last int64) {
	if p.fresh {
		p.fresh, p.left = false, last
	}
	p.stream++
}

// lacks reports whether a stream may show a change of an object that the watcher does not have.
func (p *passage) lacks(v Version) bool {
	shown, gone := p.gone[v.UID]
	return gone && shown < p.stream || p.hole.has(p.left)
}
