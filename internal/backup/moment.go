package backup

import (
	"errors"
	"fmt"
	"time"
)

// Moment is a state of a store: that at a revision, or at a time. The zero value is the state at the
// revision of a backup.
type Moment struct {
	Revision int64
	Time     time.Time
}

// in returns the moment, if a backup has it.
func (m Moment) in(h Header) (Moment, error) {
	switch {
	case m == Moment{}:
		return Moment{Revision: h.Revision}, nil
	case !h.History && m.Revision != h.Revision:
		return m, fmt.Errorf("the backup has no history: it has the state at resourceVersion %d only", h.Revision)
	case m.Revision > h.Revision || m.Time.IsZero() && m.Revision < h.Since:
		return m, fmt.Errorf("the backup has no state at resourceVersion %d: it has those from %d to %d",
			m.Revision, h.Since, h.Revision)
	case !m.Time.IsZero() && m.Time.Before(h.SinceTime):
		return m, fmt.Errorf("the backup has no state at %s: its history begins at %s",
			m.Time.Format(time.RFC3339), h.SinceTime.Format(time.RFC3339))
	}
	return m, nil
}

// reached reports whether a write was made at the moment or before.
func (m Moment) reached(revision, millis int64) bool {
	if m.Time.IsZero() {
		return revision <= m.Revision
	}
	return millis <= m.Time.UnixMilli()
}

// choice finds what was there at a moment.
type choice struct {
	at      Moment
	objects int64
	reached int64 // the last revision up to the moment
	open    int64 // the first revision after it
}

// has reports whether a version was there.
func (c *choice) has(r Record) bool {
	began, ended := c.passed(r.Revision, r.Millis), r.Until != 0 && c.passed(r.Until, r.UntilMillis)
	if !began || ended {
		return false
	}
	c.objects++
	return true
}

// passed is Moment.reached, and notes the answer.
func (c *choice) passed(revision, millis int64) bool {
	if !c.at.reached(revision, millis) {
		c.open = min(c.open, revision)
		return false
	}
	c.reached = max(c.reached, revision)
	return true
}

// check returns an error if the state is none that there was. All records of a file were asked about.
func (c *choice) check(s Summary) error {
	switch {
	case c.objects == 0 && s.Objects+s.Versions > 0:
		return errors.New("the backup has no objects at that time: its history begins later")
	case c.reached > c.open:
		return fmt.Errorf("the server's clock was set back: resourceVersion %d was written after that time, and %d, "+
			"a later one, before it; name a resourceVersion instead of a time", c.open, c.reached)
	}
	return nil
}
