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
	"github.com/gapless-io/gapless/informer/listwatchtest"
)

func TestAMirrorHasEachEventsStateOrANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("b", 1)
		w.Fail(listwatchtest.Faults(fault{End: "410", After: 7}))
		i := w.informer()
		// Nothing guards the copy but that turns come before calls: one goroutine writes
		// while the other is idle, which the race detector checks.
		mirror, whole := map[string]int{}, 0
		i.Mirror(func(update informer.Update[*thing]) {
			for key, o := range update.Changes() {
				delete(mirror, key.Name)
				if o != nil {
					mirror[key.Name] = o.Value
				}
			}
			if update.Whole {
				whole++
			}
			all := map[string]int{}
			for key, o := range update.All() {
				all[key.Name] = o.Value
			}
			if diff := cmp.Diff(all, mirror); diff != "" || len(all) != update.Len() || update.RV == "" {
				t.Errorf("rv %q, %d objects, %d changes: -all +mirror\n%s", update.RV, update.Len(), update.Changed(), diff)
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
				w.Put("a", n+2)
				after(time.Second)
			}
			w.Delete("b")
			after(time.Minute)
		})
		if whole != 2 || calls != 8 {
			t.Errorf("%d whole states, %d calls; want 2 and 8", whole, calls)
		}
	})
}

func TestTheCacheHoldsTransformedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		w.Put("odd", 13)
		calls := 0
		source := w.source().Transform(func(o *thing) (*thing, error) {
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
			w.Put("a", 2)
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
