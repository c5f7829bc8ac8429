package course

import (
	"fmt"
	"time"
)

// Tuning is what users may set of a reflector's numbers. A changed one begins as
// Defaults; the zero value stands for Defaults.
type Tuning struct {
	// BackoffLeast is the pause after the first failure since the last sign of health.
	// Each further one is twice as long, up to BackoffMost; what is really waited is up
	// to half of it more.
	BackoffLeast, BackoffMost time.Duration
	// SyncDeadline is how long a streaming list may let wait for its next object or for
	// the bookmark at its end. After that the server is taken not to know them.
	SyncDeadline time.Duration
	// Silence is how long a watch may say nothing until it is taken for dead; Dog says
	// which watches.
	Silence time.Duration
	Dog     Dog
	// Stop4xx gives up when the first state is refused with a 401, 403 or 404, or with
	// another 4xx in each of the ways to ask for it.
	Stop4xx bool
}

// Dog says what the watchdog takes for a promise to say something.
type Dog int

// The kinds of watchdogs.
const (
	// TrustBookmarks: a server that has sent a bookmark will send more. One that breaks
	// the promise is given twice the time with each watch that says nothing, up to the
	// time at which it should have ended the watch.
	TrustBookmarks Dog = iota
	// TrustNothing: every watch has to say something in time.
	TrustNothing
)

// What Defaults returns.
const (
	firstBackoff = 800 * time.Millisecond // client-go 0.37 reflector.go
	maxBackoff   = 30 * time.Second       // the same
	EndDeadline  = 30 * time.Second
	// BookmarkSilence is one and a half of the bookmark period of 60 s (server.md 3.4).
	BookmarkSilence = 90 * time.Second
)

// Defaults returns the numbers of a reflector whose user set none.
func Defaults() Tuning {
	return Tuning{
		BackoffLeast: firstBackoff, BackoffMost: maxBackoff,
		SyncDeadline: EndDeadline,
		Silence:      BookmarkSilence,
	}
}

// Validate says what cannot be meant.
func (t Tuning) Validate() error {
	if t == (Tuning{}) {
		return nil
	}
	for _, d := range []struct {
		name string
		is   time.Duration
	}{
		{"the least backoff", t.BackoffLeast},
		{"the largest backoff", t.BackoffMost},
		{"the deadline of a streaming list", t.SyncDeadline},
		{"the watchdog's silence", t.Silence},
	} {
		if d.is <= 0 {
			return fmt.Errorf("%s is %v, it must be more than 0", d.name, d.is)
		}
	}
	if t.BackoffMost < t.BackoffLeast {
		return fmt.Errorf("the largest backoff of %v is less than the least, %v", t.BackoffMost, t.BackoffLeast)
	}
	switch t.Dog {
	case TrustBookmarks, TrustNothing:
		return nil
	}
	return fmt.Errorf("there is no watchdog %d", t.Dog)
}

// Tuned is the tuning, with the defaults where nothing was set.
func (s State) Tuned() Tuning {
	if s.Tuning == (Tuning{}) {
		return Defaults()
	}
	return s.Tuning
}

// backoff is the pause after so many failures.
func (s State) backoff(failures int) time.Duration {
	t := s.Tuned()
	d := t.BackoffLeast
	for range failures {
		if d >= t.BackoffMost/2 {
			return t.BackoffMost
		}
		d *= 2
	}
	return min(d, t.BackoffMost)
}

// Deadline is until when an open watch may say nothing, from now on, until it is dead.
// The server was asked to end it at until; marked says that it has sent a bookmark.
func (s State) Deadline(now, until time.Time, marked bool) time.Time {
	t := s.Tuned()
	last := until.Add(WatchGrace)
	patience := t.Silence
	if t.Dog == TrustBookmarks && !marked {
		if !s.Cadence {
			return last
		}
		for n := 0; n < s.silent && patience < 2*MinWatchTimeout; n++ {
			patience *= 2
		}
	}
	if soon := now.Add(patience); soon.Before(last) {
		return soon
	}
	return last
}

// roll returns what is left to chance: a time in [0, n), or 0 if n is not positive; and
// the state that will say something else.
// It is splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, 2014), whose modulo is even enough for spans far below 2^64.
func (s State) roll(n time.Duration) (State, time.Duration) {
	if n <= 0 {
		return s, 0
	}
	s.Seed += 0x9e3779b97f4a7c15
	z := s.Seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return s, time.Duration((z ^ z>>31) % uint64(n))
}
