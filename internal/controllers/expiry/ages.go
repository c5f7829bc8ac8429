package expiry

import (
	"cmp"
	"slices"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

// ages say when Events expire.
//
// What was written while this process runs is as old as the monotonic clock says, as leases in
// etcd are: marks have the latest revision of a moment, and all at or below it was written before.
// So nothing expires early or never because the wall clock was set. What was written before has
// only the time of the wall clock that is stored with it: it is as old as that says when the
// process starts, at least zero, and at most the step of a clock that was set meanwhile too old.
type ages struct {
	ttl   time.Duration
	start mark
	marks []mark // after start, oldest first, with increasing revisions
}

// mark is a moment, with its monotonic time, and the latest revision at it.
type mark struct {
	at       time.Time
	revision int64
}

// mark says which revision is the latest now. The first mark is the start. Of those that are
// older than the TTL one is kept: it says what has expired.
func (a *ages) mark(revision int64) {
	now := mark{at: time.Now(), revision: revision}
	if a.start.at.IsZero() {
		a.start = now
		return
	}
	last := a.start
	if n := len(a.marks); n > 0 {
		last = a.marks[n-1]
	}
	if revision > last.revision {
		a.marks = append(a.marks, now)
	}
	old := 0
	for old+1 < len(a.marks) && now.at.Sub(a.marks[old+1].at) >= a.ttl {
		old++
	}
	a.marks = slices.Delete(a.marks, 0, old)
}

// due returns when an Event expires: its TTL after the first mark that followed its last write.
// Without such a mark it is at least the TTL from now.
func (a *ages) due(r store.Record) time.Time {
	if r.ModRevision <= a.start.revision {
		age := min(max(a.start.at.Sub(r.Time), 0), a.ttl)
		return a.start.at.Add(a.ttl - age)
	}
	i, _ := slices.BinarySearchFunc(a.marks, r.ModRevision, func(m mark, revision int64) int {
		return cmp.Compare(m.revision, revision)
	})
	if i == len(a.marks) {
		return time.Now().Add(a.ttl)
	}
	return a.marks[i].at.Add(a.ttl)
}
