package watchcache

import "sync/atomic"

// waker wakes the cursors of a cache that have read everything.
//
// The appender does not wake them itself: it leaves one token, which one of the
// waiting cursors takes; that one closes the channel on which all wait. So an
// append costs the same for one cursor and for ten thousand, and a burst of
// appends wakes them once. A waiter loads the channel before it loads the state;
// then either it sees what was appended, or the token comes after its load and
// the channel that it waits on is closed.
//
// This is the place for waking only those whose selection an entry may concern.
type waker struct {
	token chan struct{} // capacity 1
	all   atomic.Pointer[chan struct{}]
}

func newWaker() *waker {
	w := &waker{token: make(chan struct{}, 1)}
	w.replace()
	return w
}

// notify is called after a new state was stored.
func (w *waker) notify() {
	select {
	case w.token <- struct{}{}:
	default: // a token lies there; who takes it wakes for this state too
	}
}

// woken returns the channel that is closed when there is a state newer than
// those loaded before the call.
func (w *waker) woken() <-chan struct{} { return *w.all.Load() }

// pass is called by who took the token.
func (w *waker) pass() { close(w.replace()) }

func (w *waker) replace() (old chan struct{}) {
	fresh := make(chan struct{})
	if was := w.all.Swap(&fresh); was != nil {
		old = *was
	}
	return old
}
