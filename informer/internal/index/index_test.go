package index_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/informer/internal/index"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object has a key and a state.
type object struct{ Key, State int }

func content(s *index.Set[*object, string]) map[string][]object {
	all := map[string][]object{}
	for v := range s.Values() {
		for o := range s.Get(v) {
			all[v] = append(all[v], *o)
		}
		if s.Len(v) != len(all[v]) {
			all[v] = append(all[v], object{-1, s.Len(v)}) // cannot be
		}
	}
	return all
}

func TestSetBehavesLikeAMapOfMaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	s := index.New[*object, string](func(a, b *object) int { return cmp.Compare(a.Key, b.Key) })
	model := map[string]map[int]int{}
	want := func() map[string][]object {
		all := map[string][]object{}
		for v, objects := range model {
			for _, key := range slices.Sorted(maps.Keys(objects)) {
				all[v] = append(all[v], object{key, objects[key]})
			}
		}
		return all
	}
	for n := range 5000 {
		check := n%50 == 0
		older := s
		var was map[string][]object
		if check {
			was = want()
		}
		s = s.Copy()
		v, o := string(rune('a'+rng.IntN(20))), &object{rng.IntN(100), n}
		if rng.IntN(2) == 0 {
			s.Put(v, o)
			if model[v] == nil {
				model[v] = map[int]int{}
			}
			model[v][o.Key] = o.State
		} else {
			s.Remove(v, o)
			delete(model[v], o.Key)
		}
		if !check {
			continue
		}
		if diff := gocmp.Diff(want(), content(s)); diff != "" {
			t.Fatalf("after %d (-model +set):\n%s", n, diff)
		}
		if diff := gocmp.Diff(was, content(older)); diff != "" {
			t.Fatalf("the older set has changed at %d:\n%s", n, diff)
		}
	}
	if s.Len("none") != 0 {
		t.Error("a value that never was has objects")
	}
}
