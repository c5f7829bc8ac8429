package revlog

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPausesAreLongerWhileClientsAreServed works for 90 ms in pieces of 100 µs.
func TestPausesAreLongerWhileClientsAreServed(t *testing.T) {
	for _, c := range []struct {
		name string
		busy int64 // by how much served grows at each look
		want time.Duration
	}{
		{"no client", 0, 180 * time.Millisecond},
		{"clients", 7, 360 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p pacer
				var served int64
				begin := time.Now()
				for range 900 {
					began := time.Now()
					<-time.After(100 * time.Microsecond) // the work
					p.pause(began, func() int64 { served += c.busy; return served }, nil)
				}
				if got := time.Since(begin); got != c.want {
					t.Errorf("it took %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestClosingEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pacer
		closing := make(chan struct{})
		began := time.Now()
		<-time.After(time.Hour)
		go func() {
			<-time.After(time.Second)
			close(closing)
		}()
		p.pause(began, func() int64 { return 0 }, closing)
		if got := time.Since(began); got != time.Hour+time.Second {
			t.Errorf("the pause ended %v after it began", got-time.Hour)
		}
	})
}
