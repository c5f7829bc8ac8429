package render_test

import (
	"errors"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/wire"
)

// states writes lists of states, whose versions are known.
type states struct {
	t     *testing.T
	lists *render.Lists
	read  int // how many items were read
}

// list returns the answer to a list. fails, if not nil, is the error of its last item.
func (s *states) list(accept string, items []*wire.Object, versions []uint64, fails error) string {
	s.t.Helper()
	renderer, into := negotiated(s.t, "/api/v1/configmaps", accept, "")
	l := &wire.List{ResourceVersion: 9, Versions: versions, Items: func(yield func(*wire.Object, error) bool) {
		for _, o := range items {
			s.read++
			if !yield(o, nil) {
				return
			}
		}
		if fails != nil {
			yield(nil, fails)
		}
	}}
	w := httptest.NewRecorder()
	if _, err := s.lists.Write(w, into, renderer, l); !errors.Is(err, fails) {
		s.t.Fatalf("write a list: %v", err)
	}
	return w.Body.String()
}

func versionsOf(items []*wire.Object) (all []uint64) {
	for _, o := range items {
		all = append(all, o.Key().Version(o.ResourceVersion()))
	}
	return all
}

const (
	asJSON         = "application/json"
	asMetadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// TestAListThatIsKeptIsTheSame compares with a list of which nothing is known.
func TestAListThatIsKeptIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{t: t, lists: render.NewLists()}
		for _, n := range []int{1, 3, 90, 300} { // less than a piece, and several
			items := orderedMaps(t, structOrder, n)
			versions := versionsOf(items)
			for _, accept := range []string{asJSON, asJSON + unmanaged, asMetadataList, asMetadataList + unmanaged} {
				want := s.list(accept, items, nil, nil)
				for round := range 3 {
					s.read = 0
					if got := s.list(accept, items, versions, nil); got != want {
						t.Fatalf("%s of %d, round %d: got\n%.900s, want\n%.900s", accept, n, round, got, want)
					}
					if kept := s.read == 0; kept != (round > 0) {
						t.Errorf("%s of %d, round %d: %d items were read", accept, n, round, s.read)
					}
				}
			}
			changed := orderedMaps(t, ownOrder, n) // of another state, with the same versions
			if got, want := s.list(asJSON, changed, versionsOf(changed), nil), s.list(asJSON, changed, nil, nil); got != want {
				t.Errorf("another state of %d: got\n%.900s, want\n%.900s", n, got, want)
			}
		}
	})
}

func TestAListThatFailedIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{t: t, lists: render.NewLists()}
		items := orderedMaps(t, ownOrder, 200)
		versions := versionsOf(items)
		s.list(asJSON, items[:100], versions, errors.New("the log cannot be read"))
		if n := s.lists.CacheBytes(); n != 0 {
			t.Errorf("%d bytes are kept", n)
		}
		if got, want := s.list(asJSON, items, versions, nil), s.list(asJSON, items, nil, nil); got != want {
			t.Errorf("got\n%.900s, want\n%.900s", got, want)
		}
	})
}

func TestListsAreKeptForSecondsWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{t: t, lists: render.NewLists()}
		items := orderedMaps(t, ownOrder, 5000) // of 7 MB
		all := [][]uint64{}
		for range 10 {
			all = append(all, versionsOf(items))
			s.list(asJSON, items, all[len(all)-1], nil)
		}
		if n := s.lists.CacheBytes(); n < 16<<20 || n > 32<<20 {
			t.Errorf("%d bytes are kept", n)
		}
		<-time.After(9 * time.Second)
		if s.read = 0; s.list(asJSON, items, all[0], nil) == "" || s.read != 0 {
			t.Errorf("after 9 s %d items are read", s.read)
		}
		<-time.After(9 * time.Second)
		if s.read = 0; s.list(asJSON, items, all[0], nil) == "" || s.read != 0 {
			t.Errorf("9 s after another list %d items are read", s.read)
		}
		<-time.After(21 * time.Second)
		synctest.Wait()
		if n := s.lists.CacheBytes(); n != 0 {
			t.Errorf("after 20 s without a list %d bytes are kept", n)
		}
		huge := orderedMaps(t, ownOrder, 25_000) // of 35 MB
		hugeVersions := versionsOf(huge)
		for range 2 {
			s.read = 0
			if s.list(asJSON, huge, hugeVersions, nil); s.read != len(huge) {
				t.Errorf("%d objects of a list were read that is larger than the bound", s.read)
			}
		}
		if n := s.lists.CacheBytes(); n != 0 {
			t.Errorf("%d bytes of a list are kept that is larger than the bound", n)
		}
		runtime.KeepAlive(all)
	})
}

// TestOneOfManyListsAtOnceIsKept: each is asked for while the others are being written, and takes no memory of its own.
func TestOneOfManyListsAtOnceIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists := render.NewLists()
		items := orderedMaps(t, ownOrder, 1000) // of 1.4 MB
		versions := versionsOf(items)
		half := make(chan struct{})
		var writers sync.WaitGroup
		var bodies [50]string
		for i := range bodies {
			writers.Go(func() {
				renderer, into := negotiated(t, "/api/v1/configmaps", asJSON, "")
				w := httptest.NewRecorder()
				l := &wire.List{ResourceVersion: 9, Versions: versions, Items: func(yield func(*wire.Object, error) bool) {
					for at, o := range items {
						if at == len(items)-1 {
							<-half
						}
						if !yield(o, nil) {
							return
						}
					}
				}}
				if _, err := lists.Write(w, into, renderer, l); err != nil {
					t.Errorf("write a list: %v", err)
				}
				bodies[i] = w.Body.String()
			})
		}
		synctest.Wait()
		most := lists.CacheBytes()
		close(half)
		writers.Wait()
		if whole := lists.CacheBytes(); most == 0 || most > whole || whole > int64(2*len(bodies[0])) {
			t.Errorf("%d bytes are kept while they are written, %d afterwards, of lists of %d", most, whole, len(bodies[0]))
		}
		for i, body := range bodies {
			if body != bodies[0] {
				t.Fatalf("list %d is another one: %.300s", i, body)
			}
		}
		runtime.KeepAlive(versions)
	})
}

// TestAListWhoseWriterPanicsIsNotKept: the next one begins anew.
func TestAListWhoseWriterPanicsIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &states{t: t, lists: render.NewLists()}
		items := orderedMaps(t, ownOrder, 300)
		versions := versionsOf(items)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a panic was lost")
				}
			}()
			s.list(asJSON, append(slices.Clone(items[:200]), nil), versions, nil)
		}()
		if n := s.lists.CacheBytes(); n != 0 {
			t.Errorf("%d bytes are kept", n)
		}
		want := s.list(asJSON, items, nil, nil)
		for range 2 {
			if s.list(asJSON, items, versions, nil) != want {
				t.Error("another list is kept")
			}
		}
		runtime.KeepAlive(versions)
	})
}

// TestAListOfAStateThatIsGoneIsDropped: its versions are nobody's any more.
func TestAListOfAStateThatIsGoneIsDropped(t *testing.T) {
	s := &states{t: t, lists: render.NewLists()}
	items := orderedMaps(t, ownOrder, 300)
	s.list(asJSON, items, versionsOf(items), nil)
	before := s.lists.CacheBytes()
	runtime.GC()
	few := items[:10]
	versions := versionsOf(few)
	s.list(asJSON, few, versions, nil)
	if n := s.lists.CacheBytes(); before == 0 || n >= before {
		t.Errorf("%d bytes are kept, %d before the state was gone", n, before)
	}
	runtime.KeepAlive(versions)
}
