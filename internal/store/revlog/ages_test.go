package revlog

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAgesUseTheMonotonicClock: whatever the wall clock says, nothing that
// was written after a moment is older than that moment.
func TestAgesUseTheMonotonicClock(t *testing.T) {
	for _, c := range []struct {
		window time.Duration
		want   int64
	}{{2 * time.Hour, 10}, {time.Hour, 10}, {30 * time.Minute, 40}, {time.Second, 69}} {
		synctest.Test(t, func(t *testing.T) {
			a := newAges(10, c.window)
			for revision := int64(11); revision <= 70; revision++ {
				<-time.After(time.Minute)
				a.note(revision)
				if c.window > time.Second {
					a.note(revision + 1000) // too soon after the one before
				}
			}
			if got := a.expired(); got != c.want {
				t.Errorf("what is at least %v old ends at %d, want %d", c.window, got, c.want)
			}
			for _, m := range a.moments[1:] {
				if time.Since(m.at) >= c.window {
					t.Errorf("a window of %v: a moment %v ago is kept", c.window, time.Since(m.at))
				}
			}
		})
	}
}

// TestMomentsAreBounded notes a revision every second of a day.
func TestMomentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAges(1, time.Hour)
		for revision := range int64(24 * 60 * 60) {
			<-time.After(time.Second)
			a.note(revision)
			a.expired()
		}
		if len(a.moments) > maxMoments+2 {
			t.Errorf("%d moments are kept", len(a.moments))
		}
	})
}
