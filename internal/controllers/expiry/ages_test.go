package expiry

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/store"
)

func TestASetClockMovesNoExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Hour
		begun := time.Now()
		a := ages{ttl: ttl}
		a.mark(100)
		<-time.After(time.Minute)
		a.mark(200)
		<-time.After(time.Minute)
		a.mark(300)
		for name, c := range map[string]struct {
			record store.Record
			want   time.Duration // since the start
		}{
			"written before the start":                           {at(50, begun.Add(-20*time.Minute)), 40 * time.Minute},
			"expired before the start":                           {at(50, begun.Add(-2*time.Hour)), 0},
			"before the start, by a clock that was ahead":        {at(100, begun.Add(24*time.Hour)), ttl},
			"since the start, before the first mark":             {at(101, begun), ttl + time.Minute},
			"since the start, at a mark":                         {at(200, begun), ttl + time.Minute},
			"since the start, by a clock that was a year behind": {at(201, begun.Add(-365*24*time.Hour)), ttl + 2*time.Minute},
			"since the start, by a clock that is a year ahead":   {at(300, begun.Add(365*24*time.Hour)), ttl + 2*time.Minute},
			"just now": {at(301, time.Now()), ttl + 2*time.Minute},
			"just now, by a clock that is a year behind the last": {at(400, begun.Add(-365*24*time.Hour)), ttl + 2*time.Minute},
		} {
			if got := a.due(c.record).Sub(begun); got != c.want {
				t.Errorf("%s: due %v after the start, want %v", name, got, c.want)
			}
		}
	})
}

func at(revision int64, when time.Time) store.Record {
	return store.Record{ModRevision: revision, Time: time.UnixMilli(when.UnixMilli())}
}

func TestMarksAreForgottenWithWhatTheyHaveExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl, tick = time.Hour, 10 * time.Second
		a := ages{ttl: ttl}
		for revision := int64(1); revision < 10_000; revision++ {
			a.mark(revision)
			<-time.After(tick)
			if len(a.marks) > int(ttl/tick)+1 {
				t.Fatalf("%d marks are kept after %d", len(a.marks), revision)
			}
			if old := max(revision-int64(ttl/tick), 1); time.Until(a.due(at(old, time.Time{}))) > 0 {
				t.Fatalf("revision %d has not expired at revision %d", old, revision)
			}
		}
	})
}
