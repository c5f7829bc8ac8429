package informer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/informer"
)

func TestMirrorIsAtEveryEventsStateOrAheadOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		w.put("b", 1)
		w.fail(faults(fault{end: "410", after: 7}))
		i := w.informer()
		// Nothing guards the copy but that turns come before calls: one goroutine writes
		// while the other is idle, which the race detector checks.
		mirror, whole := map[string]int{}, 0
		i.Mirror(func(turn informer.Turn[*thing]) {
			for key, o := range turn.Changes() {
				delete(mirror, key.Name)
				if o != nil {
					mirror[key.Name] = o.Value
				}
			}
			if turn.Whole {
				whole++
			}
			all := map[string]int{}
			for key, o := range turn.All() {
				all[key.Name] = o.Value
			}
			if diff := cmp.Diff(all, mirror); diff != "" || len(all) != turn.Len() || turn.RV == "" {
				t.Errorf("rv %q, %d objects, %d changes: -all +mirror\n%s", turn.RV, turn.Len(), turn.Changed(), diff)
			}
		})
		calls := 0
		i.Handle(func(_ context.Context, e informer.Event[*thing]) error {
			calls++
			if got, is := mirror[e.Key.Name]; is != (e.Type != informer.Deleted) || is && got != e.New.Value {
				t.Errorf("%v %v: the mirror has %d, %t", e.Type, e.Key, got, is)
			}
			return nil
		})
		run(t, i, func() {
			after(time.Second)
			for n := range 5 {
				w.put("a", n+2)
				after(time.Second)
			}
			w.delete("b")
			after(time.Minute)
		})
		if whole != 2 || calls != 8 {
			t.Errorf("%d whole states, %d calls; want 2 and 8", whole, calls)
		}
	})
}

func TestTransformedObjectsAreWhatTheCacheHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.put("a", 1)
		w.put("odd", 13)
		calls := 0
		source := informer.From("things", memory{w}, informer.JSON[*thing]()).Transform(func(o *thing) (*thing, error) {
			calls++
			if o.Value == 13 {
				return nil, errors.New("no luck")
			}
			o.Value *= 100
			return o, nil
		})
		i := informer.New(source)
		run(t, i, func() {
			after(time.Second)
			w.put("a", 2)
			after(time.Second)
			got := ""
			for key, o := range i.All() {
				got += fmt.Sprint(key.Name, "=", o.Value, " ")
			}
			if s := i.Status(); got != "a=200 " || calls != 3 || s.Undecodable != 1 {
				t.Errorf("%q after %d calls, %d undecodable", got, calls, s.Undecodable)
			}
		})
	})
}
