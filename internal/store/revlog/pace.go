package revlog

import (
	"runtime"
	"time"
)

const (
	// workAtOnce is how long is worked at most before a pause: a pause that is much
	// shorter is not to be had from the system.
	workAtOnce = 300 * time.Microsecond
	// idleRest and busyRest are how long a pause is, as a multiple of the work before
	// it, while clients wait for nothing and while they do.
	idleRest = 1
	busyRest = 3
)

// pacer keeps one worker in the background from holding up what clients wait for: it pauses
// after each bit of work. Its zero value is ready; it is not safe for concurrent use.
type pacer struct {
	worked time.Duration // since the last pause
	served int64
}

// pause leaves locks, processors and the disk to clients for a multiple of the time
// that the worker has worked; began is when this piece of the work did. Without it they
// would hardly get a lock: a goroutine that takes it again at once is faster than one that
// is woken, until that has waited for 1 ms. served grows with what was done for clients:
// that it grew since the last pause says that there are some. A closed channel ends the
// pause.
func (p *pacer) pause(began time.Time, served func() int64, closing <-chan struct{}) {
	if p.worked += time.Since(began); p.worked < workAtOnce {
		runtime.Gosched()
		return
	}
	rest := idleRest * p.worked
	if now := served(); now != p.served {
		p.served, rest = now, busyRest*p.worked
	}
	p.worked = 0
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-closing:
	}
}
