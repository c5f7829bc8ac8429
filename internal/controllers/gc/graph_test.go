package gc

import (
	"fmt"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// object returns one of the uid.
func object(t testing.TB, uid types.UID) *wire.Object {
	t.Helper()
	o, err := wire.NewObject(fmt.Appendf(nil, `{"metadata":{"name":"o%s","namespace":"n","uid":%q}}`, uid, uid), 1, nil)
	if err != nil {
		t.Fatalf("make an object: %v", err)
	}
	return o
}

// TestGraphCountsWhatObjectsSay compares the graph after random changes with one that is
// computed from the objects: what has no owner, no dependents and waits for nothing is not
// in it, and every owner knows how many dependents it has, and how many block it.
func TestGraphCountsWhatObjectsSay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	type said struct {
		refs  []metav1.OwnerReference
		waits waiting
	}
	const objects = 12
	g := newGraph()
	g.begin()
	state := map[types.UID]said{}
	gone := map[types.UID]bool{}
	for range 3000 {
		uid := types.UID(fmt.Sprint(rng.IntN(objects)))
		switch n := rng.IntN(10); {
		case gone[uid]:
		case n == 0 && len(gone) < objects/2:
			g.remove(uid)
			delete(state, uid)
			gone[uid] = true
		case n < 3: // a worker has handled all
			for v := g.take(); v != nil; v = g.take() {
				g.done(v)
			}
		default:
			s := said{waits: waiting(rng.IntN(3))}
			for range rng.IntN(4) {
				ref := metav1.OwnerReference{UID: types.UID(fmt.Sprint(rng.IntN(objects + 2)))}
				if rng.IntN(2) == 0 {
					ref.BlockOwnerDeletion = new(true)
				}
				s.refs = append(s.refs, ref)
			}
			g.set(kinds.GroupResource{Resource: "things"}, object(t, uid), s.refs, s.waits)
			state[uid] = s
		}
	}
	for v := g.take(); v != nil; v = g.take() {
		g.done(v)
	}
	type figures struct{ owners, count, blocking int }
	want, edges := map[types.UID]figures{}, 0
	for uid, s := range state {
		if len(s.refs) > 0 || s.waits != waitsForNothing {
			f := want[uid]
			f.owners = len(s.refs)
			want[uid] = f
		}
		for _, ref := range s.refs {
			f := want[ref.UID]
			f.count++
			if ref.BlockOwnerDeletion != nil {
				f.blocking++
			}
			want[ref.UID] = f
			edges++
		}
	}
	for uid, v := range g.vertices {
		listed := 0
		for e := v.dependents; e != nil; e = e.next {
			listed++
		}
		if got := (figures{len(v.owners), v.count, v.blocking}); got != want[uid] || listed != v.count || v.gone && !gone[uid] {
			t.Errorf("%s: %+v with %d in the list, gone %t, want %+v; was deleted: %t",
				uid, got, listed, v.gone, want[uid], gone[uid])
		}
	}
	if len(g.vertices) != len(want) || g.edges != edges {
		t.Errorf("%d vertices and %d edges, want %d and %d", len(g.vertices), g.edges, len(want), edges)
	}
}

// link makes an object of the graph with owners that it blocks.
func link(t testing.TB, g *graph, uid types.UID, waits waiting, owners ...types.UID) *vertex {
	t.Helper()
	var refs []metav1.OwnerReference
	for _, owner := range owners {
		refs = append(refs, metav1.OwnerReference{UID: owner, BlockOwnerDeletion: new(true)})
	}
	g.set(kinds.GroupResource{Resource: "things"}, object(t, uid), refs, waits)
	return g.vertices[uid]
}

func TestCirclesAreFound(t *testing.T) {
	g := newGraph()
	g.begin()
	a := link(t, &g, "a", waitsForDeletion, "b")
	b := link(t, &g, "b", waitsForDeletion, "c")
	c := link(t, &g, "c", waitsForNothing, "a")
	for _, v := range []*vertex{a, b, c} {
		if g.inCircle(v) {
			t.Errorf("%s waits for itself, although c does not wait", v.uid)
		}
	}
	link(t, &g, "c", waitsForDeletion, "a", "d")
	d := link(t, &g, "d", waitsForDeletion)
	for _, v := range []*vertex{a, b, c} {
		if !g.inCircle(v) {
			t.Errorf("%s does not wait for itself", v.uid)
		}
	}
	if g.inCircle(d) {
		t.Error("d waits for itself")
	}
	if self := link(t, &g, "self", waitsForDeletion, "self"); !g.inCircle(self) {
		t.Error("an object that owns itself does not wait for itself")
	}
}

func TestVertexIsHandledByOneWorkerAtATime(t *testing.T) {
	g := newGraph()
	g.begin()
	v := link(t, &g, "a", waitsForNothing, "b")
	if g.take() != v || g.take() != nil {
		t.Fatal("the queue has something else")
	}
	link(t, &g, "a", waitsForNothing, "b", "c")
	if g.take() != nil {
		t.Error("it was taken while a worker had it")
	}
	g.done(v)
	if g.take() != v {
		t.Error("the change while a worker had it is lost")
	}
	g.fail(v)
	if s := g.stats(); s.Failed != 1 || s.Pending != 0 {
		t.Errorf("after a failure: %+v", s)
	}
	link(t, &g, "a", waitsForNothing, "c")
	if g.take() != v {
		t.Error("a change does not end the pause after a failure")
	}
	g.park(v)
	if s := g.stats(); s.Unknown != 1 || g.take() != nil {
		t.Errorf("with an unknown owner: %+v", s)
	}
	g.unpark()
	if g.take() != v {
		t.Error("it waits although kinds were defined")
	}
	g.done(v)
	g.remove("a")
	if s := g.stats(); s.Objects != 0 || s.References != 0 {
		t.Errorf("in the end: %+v", s)
	}
}
