package quota

import (
	"testing"
	"time"
)

func TestNamespacesAreCountedInTheirOrder(t *testing.T) {
	q, now := newQueue(), time.Now()
	take := func(at time.Time, want string) *item {
		t.Helper()
		i, _ := q.take(at)
		got := ""
		if i != nil {
			got = i.namespace
		}
		if got != want {
			t.Errorf("%q is due, want %q", got, want)
		}
		return i
	}
	q.add("late", now.Add(time.Second))
	q.add("soon", now)
	q.add("late", now.Add(2*time.Second)) // later than it was asked for
	soon := take(now, "soon")
	take(now, "")
	q.add("soon", now) // while it is counted
	take(now, "")
	q.done(soon, time.Time{}, now.Add(500*time.Millisecond))
	take(now, "") // not before it may be
	soon = take(now.Add(500*time.Millisecond), "soon")
	late := take(now.Add(time.Second), "late")
	q.done(soon, now.Add(3*time.Second), now)
	q.done(late, time.Time{}, now)
	if _, wait := q.take(now); wait != 3*time.Second {
		t.Errorf("the next is due in %v", wait)
	}
	if take(now.Add(3*time.Second), "soon"); len(q.items) != 1 {
		t.Errorf("%d namespaces are known, want that which is counted", len(q.items))
	}
	q.done(q.items["soon"], time.Time{}, now.Add(4*time.Second))
	q.add("soon", now) // it rests
	take(now.Add(3*time.Second), "")
	take(now.Add(4*time.Second), "soon")
}
