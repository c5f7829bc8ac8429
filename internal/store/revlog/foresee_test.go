package revlog_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store/revlog"
)

func TestChangesExpireByTheirAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, revlog.Options{Memory: true, History: time.Hour})
		quiet := commit(t, l, "quiet/a", "1")
		first := commit(t, l, "pods/a", "1")
		<-time.After(time.Minute) // of the bubble's clock
		made := time.Now()
		second := commit(t, l, "pods/a", "22")
		if got, want := l.ExpiresAt("pods", first), made.Add(time.Hour); !got.Equal(want) {
			t.Errorf("the first change after %d expires at %v, want %v", first, got, want)
		}
		for name, after := range map[string]int64{"pods": second, "quiet": quiet, "none": 0} {
			if got := l.ExpiresAt(name, after); !got.IsZero() {
				t.Errorf("a change of %s after its last one: %v", name, got)
			}
		}
		forever := open(t, revlog.Options{Memory: true})
		commit(t, forever, "pods/a", "1")
		if got := forever.ExpiresAt("pods", 0); !got.IsZero() {
			t.Errorf("a history without bounds expires at %v", got)
		}
	})
}

// TestWhatExpiresByBytesIsForeseen writes a version of 1 kB each 10 s, with room for 1 MiB of them, which takes about three
// hours: what is said after an hour is compared with what happens.
func TestWhatExpiresByBytesIsForeseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, revlog.Options{Memory: true, History: 100 * time.Hour, HistoryBytes: 1 << 20, SegmentBytes: 32 << 10})
		value := strings.Repeat("x", 1000)
		commit(t, l, "quiet/a", "1")
		first := commit(t, l, "pods/a", value)
		write := func() {
			<-time.After(10 * time.Second) // of the bubble's clock
			commit(t, l, "pods/a", value)
		}
		for range 360 {
			write()
		}
		foreseen := l.ExpiresAt("pods", first)
		later := l.ExpiresAt("pods", first+180)
		if !later.After(foreseen.Add(20 * time.Minute)) {
			t.Errorf("what was written half an hour later expires at %v, and the first change at %v", later, foreseen)
		}
		// By age it would be later; and without writes nothing grows.
		if young := l.ExpiresAt("quiet", 0); young.After(time.Now().Add(100 * time.Hour)) {
			t.Errorf("a change of an hour ago expires at %v", young)
		}
		for writes := 0; l.Resources()["pods"].Floor.Revision <= first; writes++ {
			if write(); writes > 3000 {
				t.Fatal("nothing is removed")
			}
		}
		// A segment is removed when it is due at a whole one: 30 versions, which take 5 min.
		if early := time.Until(foreseen); early.Abs() > 10*time.Minute {
			t.Errorf("the first change was foreseen to expire at %v, which is %v from now on", foreseen, early)
		}
	})
}
