package correctness_test

import (
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage/testing/correctness"
)

// changes are all that is done to a history to see that it is refused.
func changes() []string {
	return []string{
		"event dropped", "event twice", "events swapped", "event with other content", "event under the previous resourceVersion",
		"event of another type", "bookmark too high", "event after an ERROR",
		"item dropped", "item twice", "items swapped", "item with other content", "list at another resourceVersion",
		"get of other content", "get of nothing",
		"write dropped", "write with other content", "write under another resourceVersion",
	}
}

// changedStreams are what a broken server could have sent instead.
func changedStreams(op correctness.WatchOperation, d dice) map[string][]watch.Event {
	events := op.Response.Events
	changed := map[string][]watch.Event{}
	n := len(events)
	if n > 0 && events[n-1].Type == watch.Error {
		n-- // before it the end may be missing
	}
	if n < 3 {
		return changed
	}
	// Neither the first nor the last: what is missing there could come later, or have
	// been before the watch began.
	at := 1 + d.IntN(n-2)
	e := events[at]
	for i, e := range events[:n-1] {
		if next := events[i+1]; e.Type == watch.Bookmark && concrete(next) {
			changed["bookmark too high"] = replaced(events, i, withRV(e, rvOf(next)))
		}
	}
	if !concrete(e) {
		return changed
	}
	changed["event dropped"] = slices.Delete(slices.Clone(events), at, at+1)
	changed["event twice"] = slices.Insert(slices.Clone(events), at, e)
	changed["event with other content"] = replaced(events, at, otherwise(e))
	changed["event of another type"] = replaced(events, at, watch.Event{Type: other(e.Type), Object: e.Object})
	changed["event under the previous resourceVersion"] = replaced(events, at, withRV(e, rvOf(e)-1))
	if next := events[at+1]; concrete(next) {
		swapped := slices.Clone(events)
		swapped[at], swapped[at+1] = next, e
		changed["events swapped"] = swapped
	}
	status := watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure}}
	changed["event after an ERROR"] = slices.Insert(slices.Clone(events), at, status)
	return changed
}

// concrete says that an event is of an object.
func concrete(e watch.Event) bool { return e.Type != watch.Bookmark && e.Type != watch.Error }

func replaced(events []watch.Event, at int, e watch.Event) []watch.Event {
	changed := slices.Clone(events)
	changed[at] = e
	return changed
}

func withRV(e watch.Event, rv uint64) watch.Event {
	pod, _ := e.Object.DeepCopyObject().(*example.Pod)
	pod.ResourceVersion = strconv.FormatUint(rv, 10)
	return watch.Event{Type: e.Type, Object: pod}
}

func otherwise(e watch.Event) watch.Event {
	return watch.Event{Type: e.Type, Object: touched(e.Object)}
}

// touched is a pod with another color.
func touched(o runtime.Object) *example.Pod {
	pod, _ := o.DeepCopyObject().(*example.Pod)
	pod.Labels = map[string]string{"color": "none"}
	return pod
}

func other(t watch.EventType) watch.EventType {
	if t == watch.Modified {
		return watch.Added
	}
	return watch.Modified
}

// changedReads are what a broken server could have answered instead.
func changedReads(r read, d dice) map[string]read {
	changed := map[string]read{}
	with := func(name string, o runtime.Object) {
		c := r
		c.Response.Object = o
		changed[name] = c
	}
	if r.Request.Op == correctness.OpGet {
		pod, is := r.Response.Object.(*example.Pod)
		if !is || pod.Name == "" || d.IntN(8) > 0 {
			return changed // most are left out: each is compared with every state of the model
		}
		with("get of other content", touched(pod))
		with("get of nothing", nil)
		return changed
	}
	list, _ := r.Response.Object.(*example.PodList)
	items := func(name string, change func(items []example.Pod) []example.Pod) {
		c := list.DeepCopy()
		c.Items = change(c.Items)
		with(name, c)
	}
	if n := len(list.Items); n > 0 {
		at := d.IntN(n)
		items("item dropped", func(items []example.Pod) []example.Pod { return slices.Delete(items, at, at+1) })
		items("item twice", func(items []example.Pod) []example.Pod { return slices.Insert(items, at, items[at]) })
		items("item with other content", func(items []example.Pod) []example.Pod {
			items[at] = *touched(&items[at])
			return items
		})
		if at > 0 {
			items("items swapped", func(items []example.Pod) []example.Pod {
				items[at-1], items[at] = items[at], items[at-1]
				return items
			})
		}
	}
	if kindOf(r.Request) == "list exact" {
		c := list.DeepCopy()
		c.ResourceVersion = strconv.FormatUint(r.known+1, 10)
		with("list at another resourceVersion", c)
	}
	return changed
}

// changedWrites are histories that no server can have.
func changedWrites(h *history, d dice) map[string]*history {
	changed := map[string]*history{}
	rvs := slices.Sorted(maps.Keys(h.writes))
	with := func(name string, change func(writes map[uint64]correctness.Operation)) {
		c := &history{writes: maps.Clone(h.writes)}
		change(c.writes)
		changed[name] = c
	}
	at := rvs[1+d.IntN(len(rvs)-2)]
	with("write dropped", func(w map[uint64]correctness.Operation) { delete(w, at) })
	with("write with other content", func(w map[uint64]correctness.Operation) {
		op := w[at]
		op.Response.Object = touched(op.Response.Object)
		w[at] = op
	})
	with("write under another resourceVersion", func(w map[uint64]correctness.Operation) {
		w[at], w[at+1] = w[at+1], w[at]
	})
	return changed
}
