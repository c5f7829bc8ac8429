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

func TestStepsAreTheServersEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newServer()
		w.Put("a", 1)
		i := w.informer()
		var got []string
		i.Mirror(func(u informer.Update[*thing]) {
			for s := range u.Steps() {
				text := fmt.Sprintf("%s at %s", s.Key.Name, s.RV)
				switch {
				case s.New != nil:
					text += fmt.Sprintf(": %d", s.New.Value)
				case s.Last != nil:
					text += fmt.Sprintf(": deleted, was %d at %s, inferred %t", s.Last.Value, s.Last.ResourceVersion, s.Inferred)
				}
				got = append(got, text)
			}
		})
		run(t, i, func() {
			after(time.Second)
			w.Put("a", 2) // without a pause: they come together
			w.Put("a", 3)
			w.Delete("a")
			after(time.Second)
		})
		first := w.Put("b", 0) - 4
		want := []string{
			fmt.Sprintf("a at %d: 1", first), fmt.Sprintf("a at %d: 2", first+1), fmt.Sprintf("a at %d: 3", first+2),
			fmt.Sprintf("a at %d: deleted, was 3 at %d, inferred false", first+3, first+3),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error("steps (-want +got):\n" + diff)
		}
	})
}

func TestARestoredInformerContinuesWithoutAList(t *testing.T) {
	for _, incomplete := range []bool{false, true} {
		t.Run(fmt.Sprint("incomplete ", incomplete), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newServer()
				w.Put("a", 1)
				w.Put("b", 1)
				first := w.informer()
				var had informer.Restored[*thing]
				run(t, first, func() {
					after(time.Second)
					for _, o := range first.All() {
						had.Objects = append(had.Objects, o)
					}
					had.RV, had.Incomplete = first.ResourceVersion(), incomplete
				})
				w.Put("a", 2)
				w.Delete("b")
				second := w.informer()
				var wholes []bool
				second.Mirror(func(u informer.Update[*thing]) { wholes = append(wholes, u.Whole) })
				second.Restore(had)
				if len(wholes) != 1 || second.Len() != 2 {
					t.Fatalf("after Restore: %d updates, %d objects", len(wholes), second.Len())
				}
				run(t, second, func() {
					after(time.Second)
					if o, found := second.Get(informer.Key{
						Namespace: "default", Name: "a",
					}); !found || o.Value != 2 || second.Len() != 1 {
						t.Errorf("a is %+v, %d objects", o, second.Len())
					}
					if lists := second.Status().Lists; (lists > 0) != incomplete {
						t.Errorf("%d lists", lists)
					}
				})
				if wholes = wholes[1:]; len(wholes) == 0 || wholes[0] != incomplete {
					t.Errorf("whole states after Restore: %v", wholes)
				}
			})
		})
	}
}
