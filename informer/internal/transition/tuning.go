package transition

import (
	"fmt"
	"time"
)

// Tuning is the numbers of a reflector that users may set. The zero value stands for
// Defaults.
type Tuning struct {
	// BackoffLeast is the pause after the first failure since the last sign of health.
	// Each further one is twice as long, up to BackoffMost, plus a random part of up to
	// half of it.
	BackoffLeast, BackoffMost time.Duration
	// SyncDeadline is the longest wait for the next object of a streaming list, or for the
	// bookmark at its end. After that the server counts as one without streaming lists.
	SyncDeadline time.Duration
	// Silence is how long a watch may be silent before it is closed, if the server has sent
	// a bookmark. It is doubled after each watch that was silent, up to the timeout of the
	// watch.
	Silence time.Duration
	// Stop4xx gives up when the first list is refused with a 401, 403 or 404, or every form
	// of it with another 4xx.
	Stop4xx bool
	// NoComparison never compares the server's objects with the cache.
	NoComparison bool
}

// What Defaults returns.
const (
	firstBackoff = 800 * time.Millisecond // client-go 0.37 reflector.go
	maxBackoff   = 30 * time.Second       // the same
	EndDeadline  = 30 * time.Second
	// BookmarkSilence is one and a half of the bookmark period of 60 s.
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

// Validate returns an error if a number is invalid.
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
	return nil
}

// Tuned returns the tuning, or Defaults if nothing was set.
func (s State) Tuned() Tuning {
	if s.Tuning == (Tuning{}) {
		return Defaults()
	}
	return s.Tuning
}

// backoff returns the pause after a number of failures.
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

// Deadline returns until when an open watch may be silent from now on. The server was
// asked to end it at until; marked says that it has sent a bookmark.
func (s State) Deadline(now, until time.Time, marked bool) time.Time {
	t := s.Tuned()
	last := until.Add(WatchGrace)
	patience := t.Silence
	if !marked {
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

// roll returns a random time in [0, n), or 0 if n is not positive, and the state for the
// next one.
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
