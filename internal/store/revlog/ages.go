package revlog

import (
	"slices"
	"time"
)

// maxMoments is about how many moments are kept.
const maxMoments = 1024

// ages says how old revisions are by the monotonic clock, whatever the wall clock says: moments,
// oldest first, and the latest revision at each. They keep what was written while this process ran
// from being taken for old because the wall clock was set forward. They are not safe for concurrent
// use.
type ages struct {
	window  time.Duration
	moments []moment
}

type moment struct {
	at       time.Time
	revision int64
}

// newAges begins with the latest revision of this moment. Ages up to window are asked for.
func newAges(revision int64, window time.Duration) *ages {
	return &ages{window: window, moments: []moment{{at: time.Now(), revision: revision}}}
}

// note adds the present moment, unless the last one is too young.
func (a *ages) note(revision int64) {
	if last := a.moments[len(a.moments)-1]; time.Since(last.at) >= a.window/maxMoments {
		a.moments = append(a.moments, moment{at: time.Now(), revision: revision})
	}
}

// expired returns the latest revision that is at least as old as the window, and forgets
// the moments before it. It is the first one as long as none is so old.
func (a *ages) expired() int64 {
	i := 0
	for i+1 < len(a.moments) && time.Since(a.moments[i+1].at) >= a.window {
		i++
	}
	a.moments = slices.Delete(a.moments, 0, i)
	return a.moments[0].revision
}
