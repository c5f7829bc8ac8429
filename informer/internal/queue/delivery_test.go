package queue_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/incident"
	"github.com/gapless-io/gapless/informer/internal/queue"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// errFull is what a full queue is stopped with.
var errFull = errors.New("full")

// version returns version n of the object with a name; nil for n 0.
func version(name string, n int) handle.Handle[*object] {
	if n == 0 {
		return handle.Handle[*object]{}
	}
	return handle.Of(&object{ObjectMeta: metav1.ObjectMeta{Name: name}, n: n})
}

// recorder is a queue whose handler writes its deliveries down and fails as planned.
type recorder struct {
	*queue.Queue[*object]

	now       map[string]handle.Handle[*object]
	delivered []string
	incidents []string
	fails     int // how many calls are still to fail
}

func newRecorder(f queue.Filter[*object], o queue.Options) *recorder {
	r := &recorder{now: map[string]handle.Handle[*object]{}}
	o.Workers, o.ErrFull = 1, errFull
	o.RetryMin, o.RetryMax = time.Second, time.Minute
	call := func(_ context.Context, d queue.Delivery[*object]) error {
		number := func(h handle.Handle[*object]) int {
			if h.Get() == nil {
				return 0
			}
			return h.Get().n
		}
		kind := [...]string{"", "added", "modified", "deleted", "resync"}[d.Kind]
		s := fmt.Sprintf("%s %s %d>%d", kind, d.Key.Name, number(d.Old), number(d.New))
		if d.Merged > 0 {
			s += fmt.Sprintf(" merged %d", d.Merged)
		}
		if d.Attempt > 0 {
			s += fmt.Sprintf(" attempt %d", d.Attempt)
		}
		r.delivered = append(r.delivered, s)
		if r.fails > 0 {
			r.fails--
			return errors.New("no")
		}
		return nil
	}
	r.Queue = queue.New(call, f, o, func(in incident.Incident) { r.incidents = append(r.incidents, in.Kind.String()) })
	r.Prime()
	return r
}

// set makes n the version of an object, 0 for none, and returns the incident.
func (r *recorder) set(name string, n int) incident.Incident {
	older, newer := r.now[name], version(name, n)
	r.now[name] = newer
	return r.Add([]state.Change[*object]{{Key: handle.Key{Name: name}, Old: older, New: newer, Last: older}}, false)
}

// work runs the worker for an hour.
func (r *recorder) work(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	r.Start(ctx, func(f func()) { go f() }) // ends with ctx; Wait waits for it
	if err := r.Wait(t.Context()); err != nil {
		t.Errorf("wait: %v", err)
	}
}

func TestChangesOfAKeyThatWaitsAreMerged(t *testing.T) {
	even := queue.Filter[*object]{Where: func(o *object) bool { return o.n%2 == 0 }}
	tens := queue.Filter[*object]{Differs: func(a, b *object) bool { return a.n/10 != b.n/10 }}
	for _, c := range []struct {
		name    string
		filter  queue.Filter[*object]
		options queue.Options
		known   int // the version that the handler handled before
		then    []int
		want    []string
	}{
		{"modifications", queue.Filter[*object]{}, queue.Options{}, 1, []int{2, 3, 4}, []string{"modified a 1>4 merged 2"}},
		{"an object that is created and deleted", queue.Filter[*object]{}, queue.Options{}, 0, []int{2, 0}, nil},
		{
			"a deletion and a new object",
			queue.Filter[*object]{},
			queue.Options{},
			1,
			[]int{0, 3},
			[]string{"deleted a 1>0", "added a 0>3"},
		},
		{
			"a deletion after modifications",
			queue.Filter[*object]{},
			queue.Options{},
			1,
			[]int{2, 0},
			[]string{"deleted a 2>0 merged 1"},
		},
		{
			"keys only: one delivery",
			queue.Filter[*object]{},
			queue.Options{KeysOnly: true},
			1,
			[]int{0, 3},
			[]string{"modified a 1>3 merged 1"},
		},
		{
			"every version",
			queue.Filter[*object]{},
			queue.Options{Every: 9},
			1,
			[]int{2, 3, 0},
			[]string{"modified a 1>2", "modified a 2>3", "deleted a 3>0"},
		},
		{"an object that begins to match", even, queue.Options{}, 1, []int{2}, []string{"added a 0>2"}},
		{"an object that no longer matches", even, queue.Options{}, 2, []int{3}, []string{"deleted a 2>0"}},
		{"an object that never matched", even, queue.Options{}, 1, []int{3, 0}, nil},
		{"a modification without a difference", tens, queue.Options{}, 1, []int{2}, nil},
		{"a modification with a difference", tens, queue.Options{}, 1, []int{12}, []string{"modified a 1>12"}},
		{"another object without a difference", tens, queue.Options{}, 1, []int{0, 2}, []string{"deleted a 1>0", "added a 0>2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(c.filter, c.options)
				r.now["a"] = version("a", c.known)
				for _, n := range c.then {
					r.set("a", n)
				}
				r.work(t)
				if diff := cmp.Diff(c.want, r.delivered); diff != "" {
					t.Errorf("deliveries (-want +got):\n%s", diff)
				}
				if r.Keys() != 0 {
					t.Errorf("%d keys are left", r.Keys())
				}
			})
		})
	}
}

func TestAFailedDeliveryIsRetriedWithTheNewestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(queue.Filter[*object]{}, queue.Options{})
		r.now["a"], r.fails = version("a", 1), 2
		r.set("a", 2)
		r.work(t)
		want := []string{"modified a 1>2", "modified a 1>2 attempt 1", "modified a 1>2 attempt 2"}
		if diff := cmp.Diff(want, r.delivered); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"handler_failed", "handler_failed"}, r.incidents); diff != "" {
			t.Errorf("incidents (-want +got):\n%s", diff)
		}
	})
}

func TestRetriesGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(queue.Filter[*object]{}, queue.Options{Retries: 1})
		r.now["a"], r.fails = version("a", 1), 9
		r.set("a", 2)
		r.work(t)
		if diff := cmp.Diff([]string{"handler_failed", "handler_gave_up"}, r.incidents); diff != "" {
			t.Errorf("incidents (-want +got):\n%s", diff)
		}
	})
}

func TestAFullQueueDoesWhatItsPolicySays(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  queue.Policy
		kind    incident.Kind
		stopped error
		want    []string
	}{
		{"Block", queue.Block, 0, nil, []string{"added a 0>1", "modified a 1>2", "modified a 2>3"}},
		{"Merge", queue.Merge, incident.HandlerMerged, nil, []string{"added a 0>3 merged 2"}},
		{"Fail", queue.Fail, incident.HandlerStopped, errFull, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRecorder(queue.Filter[*object]{}, queue.Options{Every: 2, WhenFull: c.policy})
				r.set("a", 1)
				r.set("a", 2)
				if in := r.set("a", 3); in.Kind != c.kind {
					t.Errorf("the incident is %q, want %q", in.Kind, c.kind)
				}
				if !errors.Is(r.Err(), c.stopped) {
					t.Errorf("the queue was stopped with %v, want %v", r.Err(), c.stopped)
				}
				r.work(t)
				if diff := cmp.Diff(c.want, r.delivered); diff != "" {
					t.Errorf("deliveries (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestEnqueueReDeliversTheCurrentState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(queue.Filter[*object]{Differs: func(_, _ *object) bool { return false }}, queue.Options{})
		r.now["b"] = version("b", 1)
		a := version("a", 1)
		r.Enqueue(handle.Key{Name: "a"}, a, "")
		r.set("b", 2)
		r.Enqueue(handle.Key{Name: "b"}, r.now["b"], "") // a change waits: it is delivered whatever Differs says
		r.Enqueue(handle.Key{Name: "none"}, handle.Handle[*object]{}, "")
		r.work(t)
		if diff := cmp.Diff([]string{"resync a 1>1", "modified b 1>2"}, r.delivered); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

func TestFiltersOfAnotherTypeAreAnError(t *testing.T) {
	if _, err := queue.NewFilter[*object]([]any{func(string) bool { return true }}, nil); err == nil {
		t.Error("Where for another type is accepted")
	}
	if _, err := queue.NewFilter[*object](nil, []any{func(_, _ string) bool { return true }}); err == nil {
		t.Error("Changed for another type is accepted")
	}
	f, err := queue.NewFilter[*object]([]any{func(o *object) bool { return o.n > 1 }, func(o *object) bool { return o.n < 3 }},
		nil)
	if err != nil || !f.Where(&object{n: 2}) || f.Where(&object{n: 3}) || f.Differs != nil {
		t.Errorf("the filters are not combined: %v", err)
	}
}
