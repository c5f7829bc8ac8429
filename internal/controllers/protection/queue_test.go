package protection

import (
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestObjectsAreLookedAtOnceAndAgainWhenTheyChange(t *testing.T) {
	q, now := newQueue(), time.Now()
	a, b := wire.Key{Name: "a"}, wire.Key{Name: "b"}
	take := func(at time.Time, want string) *waiting {
		t.Helper()
		i, _ := q.take(at)
		got := ""
		if i != nil {
			got = i.key.Name
		}
		if got != want {
			t.Errorf("%q is due, want %q", got, want)
		}
		return i
	}
	q.note(a)
	q.note(b)
	q.forget(b)
	take(now, "") // nobody works
	q.begin()
	q.look(b) // it is not known
	q.note(a)
	later := now.Add(time.Minute)
	first := take(later, "a")
	take(later, "")
	q.note(a) // while it is looked at
	take(later, "")
	q.done(first, 0)
	first = take(later, "a")
	q.done(first, time.Hour)
	take(later, "")
	q.look(a) // that may be why it failed
	first = take(later, "a")
	q.done(first, 0)
	if take(later, ""); q.len() != 0 {
		t.Errorf("%d objects are waiting, want none", q.len())
	}
	q.look(a)
	q.end()
	if take(later, ""); q.len() != 0 {
		t.Errorf("%d objects are waiting, want none: nobody works", q.len())
	}
	q.begin()
	take(later, "a")
}
