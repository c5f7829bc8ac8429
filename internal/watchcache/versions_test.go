package watchcache_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// many returns objects in three namespaces.
func many(t *testing.T, n int) []*wire.Object {
	t.Helper()
	var all []*wire.Object
	for i := range n {
		all = append(all,
			thing{namespace: fmt.Sprintf("ns%d", i%3), name: fmt.Sprintf("x%d", i)}.at(t, kube.ResourceVersion((n-i)%100+1)))
	}
	return all
}

// versionsOf are those of the objects that a scan yields.
func versionsOf(s *watchcache.Snapshot, namespace string) (all []uint64) {
	for o := range s.Scan("", watchcache.Selection{Namespace: namespace}) {
		all = append(all, o.Key().Version(o.ResourceVersion()))
	}
	return all
}

func TestVersionsAreThoseOfAScan(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, many(t, 1000)...)
	for round := range kube.ResourceVersion(4) {
		s := f.cache.Snapshot()
		for _, namespace := range []string{"", "ns1", "ns2"} {
			want := versionsOf(s, namespace)
			if first := s.Versions(namespace); first != nil {
				t.Errorf("round %d: the first who asks for %q gets %d versions", round, namespace, len(first))
			}
			for range 2 {
				if got := s.Versions(namespace); !slices.Equal(got, want) {
					t.Errorf("round %d: versions in %q are %v, want %v", round, namespace, got, want)
				}
			}
		}
		switch at := loadedAt + 1 + round; round { // each another state
		case 0:
			f.put(at, thing{namespace: "ns1", name: "x1", app: "2"})
		case 1:
			f.remove(at, thing{namespace: "ns2", name: "x2"})
		default:
			f.cache.Load(many(t, 900), at)
		}
		if before := s.Versions("ns1"); before != nil && !slices.Equal(before, versionsOf(s, "ns1")) {
			t.Errorf("round %d: an older snapshot has the versions of a newer one", round)
		}
	}
}

func TestVersionsOfFewObjectsAndOfThePastAreNotKnown(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, many(t, 765)...)
	for range 3 {
		for i, namespace := range []string{"ns0", "none", "ns", "ns0/"} { // each of 255 objects, or none
			if s := f.cache.Snapshot(); s.Versions(namespace) != nil {
				t.Errorf("versions of few objects are known: %d, %q", i, namespace)
			}
		}
	}
	f.put(loadedAt+1, thing{name: "new"})
	f.put(loadedAt+2, thing{name: "newer"})
	for range 3 {
		s, err := f.cache.At(t.Context(), loadedAt+1)
		if err != nil {
			t.Fatalf("read the past: %v", err)
		}
		if s.Versions("") != nil {
			t.Error("versions of the past are known")
		}
	}
}

// TestVersionsBesideWrites asks about states that change meanwhile.
func TestVersionsBesideWrites(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, many(t, 900)...)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 200 {
				s := f.cache.Snapshot()
				for range 3 {
					if got := s.Versions("ns0"); got != nil && !slices.Equal(got, versionsOf(s, "ns0")) {
						t.Errorf("versions of a state at %d are those of another one", s.RV())
					}
				}
			}
		})
	}
	for rv := kube.ResourceVersion(loadedAt + 1); rv < loadedAt+500; rv++ {
		f.put(rv, thing{namespace: "ns0", name: fmt.Sprintf("x%d", 3*(rv%50))})
	}
	readers.Wait()
}
