package state_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/client"
	"github.com/gapless-io/gapless/informer/internal/handle"
	"github.com/gapless-io/gapless/informer/internal/state"
)

// object is an object with a content.
type object struct {
	metav1.ObjectMeta

	Content int
}

func held(name, uid, rv string) handle.Handle[*object] {
	return handle.Of(&object{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: rv},
	})
}

func key(name string) handle.Key { return handle.Key{Namespace: "ns", Name: name} }

func meta(name, uid, rv string) client.Meta {
	return client.Meta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: rv}
}

// written writes changes down: name, old and new version, version of the change.
func written(changes []state.Change[*object]) []string {
	version := func(h handle.Handle[*object]) string {
		if h == (handle.Handle[*object]{}) {
			return "none"
		}
		return string(h.GetUID()) + "@" + h.GetResourceVersion()
	}
	var all []string
	for _, c := range changes {
		s := fmt.Sprintf("%s %s to %s in %s", c.Key.Name, version(c.Old), version(c.New), c.RV)
		if c.Inferred {
			s += ", inferred"
		}
		all = append(all, s)
	}
	return all
}

// names are the objects of a tree.
func names(tree state.Tree[*object]) []string {
	var all []string
	tree.Scan(func(e state.Entry[*object]) bool {
		all = append(all, e.Key.Name+" "+string(e.Object.GetUID())+"@"+e.Object.GetResourceVersion())
		return true
	})
	return all
}

// keeper has object a with UID a at version 5.
func keeper() state.Keeper[*object] {
	k := state.NewKeeper[*object]()
	k.Tree.Put(held("a", "a", "5"))
	return k
}

func TestKeeperAppliesAnAddedOrModifiedEvent(t *testing.T) {
	for _, c := range []struct {
		name     string
		object   handle.Handle[*object]
		position string
		verdict  state.Verdict
		changes  []string
		after    []string
	}{
		{"a new object", held("b", "b", "7"), "6", state.Taken, []string{"b none to b@7 in 7"}, []string{"a a@5", "b b@7"}},
		{"a newer version", held("a", "a", "7"), "6", state.Taken, []string{"a a@5 to a@7 in 7"}, []string{"a a@7"}},
		{"the same version", held("a", "a", "5"), "6", state.Known, nil, []string{"a a@5"}},
		{"an older version", held("a", "a", "4"), "6", state.Stale, nil, []string{"a a@5"}},
		{
			"another UID", held("a", "z", "7"), "6", state.Taken,
			[]string{"a a@5 to none in 7, inferred", "a none to z@7 in 7"},
			[]string{"a z@7"},
		},
		{"an unknown object from before the position", held("b", "b", "4"), "6", state.Stale, nil, []string{"a a@5"}},
		{
			"an unknown object at the position", held("b", "b", "6"), "6", state.Taken,
			[]string{"b none to b@6 in 6"},
			[]string{"a a@5", "b b@6"},
		},
		{
			"versions that are not numbers", held("a", "a", "x"), "6", state.Taken,
			[]string{"a a@5 to a@x in x"},
			[]string{"a a@x"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keeper()
			changes, verdict := k.Upsert(nil, c.object, c.position)
			if verdict != c.verdict {
				t.Errorf("the verdict is %d, want %d", verdict, c.verdict)
			}
			if diff := cmp.Diff(c.changes, written(changes)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.after, names(k.Tree)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeeperAppliesADeletedEvent(t *testing.T) {
	for _, c := range []struct {
		name    string
		of      client.Meta
		last    handle.Handle[*object]
		verdict state.Verdict
		changes []string
		newest  string // version of Change.Last
	}{
		{"of an object", meta("a", "a", "7"), held("a", "a", "7"), state.Taken, []string{"a a@5 to none in 7"}, "7"},
		{
			"that cannot be decoded", meta("a", "a", "7"),
			handle.Handle[*object]{},
			state.Taken,
			[]string{"a a@5 to none in 7"},
			"5",
		},
		{"of another UID", meta("a", "z", "7"), held("a", "z", "7"), state.Taken, []string{"a a@5 to none in 7"}, "5"},
		{"of an unknown object", meta("b", "b", "7"), held("b", "b", "7"), state.Known, nil, ""},
		{"from before the object's version", meta("a", "a", "4"), held("a", "a", "4"), state.Stale, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keeper()
			changes, verdict := k.Remove(nil, c.of, c.last, "6")
			if verdict != c.verdict {
				t.Errorf("the verdict is %d, want %d", verdict, c.verdict)
			}
			if diff := cmp.Diff(c.changes, written(changes)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if c.newest != "" && changes[0].Last.GetResourceVersion() != c.newest {
				t.Errorf("the last known version is %s, want %s", changes[0].Last.GetResourceVersion(), c.newest)
			}
			if _, has := k.Tree.Of(key("a")); has != (verdict != state.Taken) {
				t.Errorf("the tree has the object: %t", has)
			}
		})
	}
}

func TestAnEventThatRepeatsADeletedObjectIsStale(t *testing.T) {
	k := keeper()
	_, _ = k.Remove(nil, meta("a", "a", "7"), held("a", "a", "7"), "6")
	if _, v := k.Upsert(nil, held("a", "a", "7"), "7"); v != state.Stale {
		t.Errorf("the deleted object at the version of its deletion has verdict %d", v)
	}
	if _, v := k.Upsert(nil, held("a", "z", "7"), "7"); v != state.Taken {
		t.Errorf("another object of the same transaction has verdict %d", v)
	}
}

func TestReplaceReturnsExactlyTheDifference(t *testing.T) {
	k := state.NewKeeper[*object]()
	same := held("same", "s", "1")
	for _, h := range []handle.Handle[*object]{
		same, held("gone", "g", "2"), held("new-uid", "n", "3"), held("modified", "m", "4"),
	} {
		k.Tree.Put(h)
	}
	g := state.NewGathering[*object]()
	for _, h := range []handle.Handle[*object]{
		held("same", "s", "1"), held("new-uid", "N", "8"), held("modified", "m", "9"), held("added", "a", "7"),
	} {
		g.Put(h)
	}
	got := written(k.Replace(g, "10"))
	want := []string{
		"added none to a@7 in 7",
		"gone g@2 to none in 10, inferred",
		"modified m@4 to m@9 in 9",
		"new-uid n@3 to none in 8, inferred",
		"new-uid none to N@8 in 8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if kept, _ := k.Tree.Of(key("same")); kept != same {
		t.Error("an unchanged object has another pointer")
	}
}

func TestReplaceComparesContentWhenVersionsCanDiffer(t *testing.T) {
	for anew, want := range map[bool]int{false: 0, true: 1} {
		k := keeper()
		g := state.NewGathering[*object]()
		g.Anew = anew
		other := held("a", "a", "5")
		other.Get().Content = 1
		g.Put(other)
		if got := k.Replace(g, "5"); len(got) != want {
			t.Errorf("anew %t: %d changes, want %d", anew, len(got), want)
		}
	}
}

func TestAnUndecodableObjectKeepsItsState(t *testing.T) {
	for _, c := range []struct {
		name string
		of   client.Meta
		want []string
	}{
		{"the same object", meta("a", "a", "7"), nil},
		{"another UID", meta("a", "z", "7"), []string{"a a@5 to none in 9, inferred"}},
		{"an older version, from another history", meta("a", "a", "3"), []string{"a a@5 to none in 9, inferred"}},
	} {
		k := keeper()
		g := state.NewGathering[*object]()
		g.Unreadable(&k, c.of)
		if diff := cmp.Diff(c.want, written(k.Replace(g, "9"))); diff != "" {
			t.Errorf("%s: changes (-want +got):\n%s", c.name, diff)
		}
		if k.Unread[key("a")] != c.of {
			t.Errorf("%s: the keeper does not list it as unread", c.name)
		}
	}
}

// TestDiffEqualsTheDifferenceOfTwoMaps compares Diff with a comparison of maps, for trees that
// share most of their nodes. The seed is in the name.
func TestDiffEqualsTheDifferenceOfTwoMaps(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			older, model := state.NewTree[*object](), map[string]string{}
			for n := range 500 {
				name := fmt.Sprintf("%03d", n)
				older.Put(held(name, name, "1"))
				model[name] = name
			}
			newer := older.Copy()
			want := map[string]string{}
			for n := range rng.IntN(60) {
				name := fmt.Sprintf("%03d", rng.IntN(600))
				switch _, is := model[name]; {
				case is && rng.IntN(2) == 0:
					newer.Drop(key(name))
					want[name] = "deleted"
				default:
					newer.Put(held(name, name, strconv.Itoa(n+2)))
					want[name] = "modified"
					if !is {
						want[name] = "added"
					}
				}
			}
			got := map[string]string{}
			var order []string
			state.Diff(older, newer, "99", func(c state.Change[*object]) bool {
				var none handle.Handle[*object]
				kind := "modified"
				switch none {
				case c.Old:
					kind = "added"
				case c.New:
					kind = "deleted"
				}
				got[c.Key.Name] = kind
				order = append(order, c.Key.Name)
				return true
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if !slices.IsSorted(order) {
				t.Errorf("the changes are not in order: %q", order)
			}
		})
	}
}

func TestACopyOfATreeDoesNotChange(t *testing.T) {
	tree := keeper().Tree
	before := tree.Copy()
	tree.Apply([]state.Change[*object]{{Key: key("a")}, {Key: key("b"), New: held("b", "b", "6")}})
	if diff := cmp.Diff([]string{"a a@5"}, names(before)); diff != "" {
		t.Errorf("the copy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"b b@6"}, names(tree)); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
}

func TestAfterWalksATreeInPieces(t *testing.T) {
	tree := state.NewTree[*object]()
	for n := range 7 {
		tree.Put(held(strconv.Itoa(n), "u", "1"))
	}
	var got []string
	for last := (handle.Key{}); ; {
		some := tree.After(last, 3)
		if len(some) == 0 {
			break
		}
		for _, e := range some {
			got, last = append(got, e.Key.Name), e.Key
		}
	}
	if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5", "6"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
