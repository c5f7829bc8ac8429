// Package ages knows how old revisions are by the monotonic clock, whatever the wall
// clock says.
//
// It has one noun. [Ages] are moments of one process, and the latest revision at each.
package ages

import (
	"slices"
	"time"
)

// most is about how many moments are kept.
const most = 1024

// Ages are moments of the monotonic clock, oldest first, and the latest revision at each.
// They keep what was written while this process ran from being taken for old because the
// wall clock was set forward. They are not safe for concurrent use.
type Ages struct {
	window  time.Duration
	moments []moment
}

type moment struct {
	at       time.Time
	revision int64
}

// New begins with the latest revision of this moment. Ages up to window are asked for.
func New(revision int64, window time.Duration) *Ages {
	return &Ages{window: window, moments: []moment{{at: time.Now(), revision: revision}}}
}

// Note adds the present moment, unless the last one is too young.
func (a *Ages) Note(revision int64) {
	if last := a.moments[len(a.moments)-1]; time.Since(last.at) >= a.window/most {
		a.moments = append(a.moments, moment{at: time.Now(), revision: revision})
	}
}

// Expired returns the latest revision that is at least as old as the window, and forgets
// the moments before it. It is the first one as long as none is so old.
func (a *Ages) Expired() int64 {
	i := 0
	for i+1 < len(a.moments) && time.Since(a.moments[i+1].at) >= a.window {
		i++
	}
	a.moments = slices.Delete(a.moments, 0, i)
	return a.moments[0].revision
}
