package fieldmanager

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// applies plays configurations that are applied again, or with changes, between updates.
type applies struct {
	updates

	found, nothing int // applies that change nothing: those found, and all
}

// TestAppliesThatChangeNothingAreFound compares the short way with upstream's library for
// fixtures and a custom resource: what is found to change nothing changes nothing, and most of
// that is found.
func TestAppliesThatChangeNothingAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all := fixtures(t)
	r, u := customs(t)
	all[r] = u
	m := New(kinds.NewLive(builtin.Catalog().With(r)), nil)
	seed := rand.Uint64()
	found, nothing := 0, 0
	for round := range uint64(*rounds) {
		for r, u := range all {
			synctest.Test(t, func(t *testing.T) {
				p := &applies{updates: updates{T: t, rng: rand.New(rand.NewPCG(seed, round)), managers: m, fixture: u}} //nolint:gosec // reproducible from the seed
				plays := 1
				if r.Custom {
					plays = 15
				}
				for range plays {
					p.play(r, 12)
				}
				found, nothing = found+p.found, nothing+p.nothing
			})
			if t.Failed() {
				t.Fatalf("seed %d, round %d", seed, round)
			}
		}
	}
	t.Logf("%d of %d applies that change nothing were found", found, nothing)
	// About nine of ten: not those of objects that have come to have duplicates in lists, which
	// the library takes.
	if nothing < 50 || found < nothing/3 {
		t.Errorf("%d of %d applies that change nothing were found", found, nothing)
	}
}

func (p *applies) play(r *kinds.Resource, steps int) {
	live := p.fixture.DeepCopy()
	live.SetManagedFields(nil)
	if err := create(p.managers, kinds.Target{Resource: r}, live, "one"); err != nil {
		p.Fatalf("create: %v", err)
	}
	known := map[string]*unstructured.Unstructured{}
	for range steps {
		<-time.After(time.Duration(p.rng.IntN(3000)) * time.Millisecond)
		target := kinds.Target{Resource: r}
		if r.HasStatus && p.rng.IntN(4) == 0 {
			target.Subresource = "status"
		}
		if p.rng.IntN(6) == 0 {
			next := live.DeepCopy()
			p.change(next.Object)
			live = p.compare(target, next, live)
			continue
		}
		manager := []string{"a", "kubectl"}[p.rng.IntN(2)]
		config, again := known[manager+target.Subresource]
		if !again || p.rng.IntN(3) == 0 {
			config = p.fixture.DeepCopy()
			config.SetManagedFields(nil)
			if again {
				config = known[manager+target.Subresource].DeepCopy()
			}
			for range p.rng.IntN(3) {
				p.change(config.Object)
			}
		}
		next := p.apply(target, live, Configuration{Object: config, Manager: manager, Force: p.rng.IntN(2) == 0})
		if next != nil {
			live, known[manager+target.Subresource] = next, config
		}
	}
}

// apply returns what the library makes of a configuration, nil for an error.
func (p *applies) apply(target kinds.Target, live *unstructured.Unstructured, c Configuration) *unstructured.Unstructured {
	f, err := p.managers.of(target)
	if err != nil {
		p.Fatalf("find the field manager: %v", err)
	}
	was, config := live.DeepCopy(), c.Object.DeepCopy()
	got := f.unchanged(was.Object, c)
	if diff := cmp.Diff(live.Object, was.Object) + cmp.Diff(config.Object, c.Object.Object); diff != "" {
		p.Errorf("the objects were changed: %s", diff)
	}
	next, err := f.apply(live.DeepCopy(), c)
	if err == nil && f.fill != nil { // as the registry does
		err = f.fill(next)
		if cmp.Equal(timeless(p.T, next), timeless(p.T, live)) {
			next = live
		}
	}
	same := err == nil && cmp.Equal(jsonOf(p.T, live), jsonOf(p.T, next))
	if same {
		p.nothing++
	}
	if got {
		p.found++
	}
	if got && !same {
		before, _ := json.Marshal(live.Object)
		applied, _ := json.Marshal(c.Object.Object)
		p.Errorf("%s: %s applies\n%s\nto\n%s\nwhich is found to change nothing, but %v\n%s",
			target.Subresource, c.Manager, applied, before, err, cmp.Diff(live, next))
	}
	if err != nil {
		return nil
	}
	return next
}

// timeless returns an object as decoded JSON, without times in managedFields, by which these
// are ordered. Upstream writes an object of which nothing but this order changes.
func timeless(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	tree := jsonOf(t, u)
	entries, _, err := unstructured.NestedSlice(tree, "metadata", "managedFields")
	if err != nil {
		t.Fatalf("read the list: %v", err)
	}
	for _, e := range entries {
		delete(e.(map[string]any), "time")
	}
	slices.SortFunc(entries, compareEntries)
	tree["metadata"].(map[string]any)["managedFields"] = entries
	return tree
}

// jsonOf returns an object as decoded JSON.
func jsonOf(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	text, err := u.MarshalJSON()
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	tree, err := jsontree.Decode(text)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return tree
}

// kubectl's annotation may change although the fields do not: such an object is left to the
// library.
func TestAnObjectOfClientSideApplyIsLeftToTheLibrary(t *testing.T) {
	m, target := New(kinds.NewLive(builtin.Catalog()), nil), configMaps(t)
	for annotation, want := range map[string]bool{"example.com/a": true, corev1.LastAppliedConfigAnnotation: false} {
		config := wide(2)
		config.SetAnnotations(map[string]string{annotation: "{}"})
		c := Configuration{Object: config, Manager: "a"}
		live, err := m.Apply(target, nil, c)
		if err != nil {
			t.Fatalf("apply: %v", err)
		}
		live.Object = jsonOf(t, live)
		f, err := m.of(target)
		if err != nil {
			t.Fatalf("find it: %v", err)
		}
		if got := f.unchanged(live.Object, c); got != want {
			t.Errorf("%s: found %t, want %t", annotation, got, want)
		}
	}
}

// BenchmarkApply applies a Pod again: the short way, and by the library.
func BenchmarkApply(b *testing.B) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	r, _ := builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "pods"})
	tree, err := jsontree.Decode([]byte(pod))
	if err != nil {
		b.Fatalf("decode: %v", err)
	}
	target, c := kinds.Target{Resource: r}, Configuration{Object: &unstructured.Unstructured{Object: tree}, Manager: "m"}
	live, err := m.Apply(target, nil, c)
	if err != nil {
		b.Fatalf("apply: %v", err)
	}
	text, err := live.MarshalJSON()
	if err != nil {
		b.Fatalf("encode as JSON: %v", err)
	}
	if live.Object, err = jsontree.Decode(text); err != nil {
		b.Fatalf("decode: %v", err)
	}
	f, err := m.of(target)
	if err != nil {
		b.Fatalf("find it: %v", err)
	}
	b.Run("short", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !f.unchanged(live.Object, c) {
				b.Fatal("it is left to the library")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f.apply(live, c); err != nil {
				b.Fatalf("apply: %v", err)
			}
		}
	})
}

// What is replaced as a whole lacks its defaults in the configuration, and the live object has
// them. If another manager has it too, there is a conflict.
func TestDefaultsInWhatIsReplacedAreNoChange(t *testing.T) {
	r, config := customs(t)
	m, target := New(kinds.NewLive(builtin.Catalog().With(r)), nil), kinds.Target{Resource: r}
	c := Configuration{Object: config, Manager: "a"}
	live, err := m.Apply(target, nil, c)
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	f, err := m.of(target)
	if err != nil {
		t.Fatalf("find it: %v", err)
	}
	if err := f.fill(live); err != nil {
		t.Fatalf("fill the store: %v", err)
	}
	live.Object = jsonOf(t, live)
	if list, _, _ := unstructured.NestedSlice(live.Object, "spec", "plain"); !cmp.Equal(list, []any{
		map[string]any{"a": "b", "filled": "x"},
	}) {
		t.Fatalf("the list is %v", list)
	}
	if !f.unchanged(live.Object, c) {
		t.Error("what differs in defaults is a change")
	}
	shared := live.DeepCopy()
	entry := f.entry("other", fieldSet{"f:spec": fieldSet{"f:plain": fieldSet{}}})
	stored, _, err := unstructured.NestedSlice(shared.Object, "metadata", "managedFields")
	if err != nil {
		t.Fatalf("read the list: %v", err)
	}
	shared.Object["metadata"].(map[string]any)["managedFields"] = append(stored, entry)
	if _, err := f.apply(shared.DeepCopy(), c); err == nil {
		t.Error("the library finds no conflict")
	}
	if f.unchanged(shared.Object, c) {
		t.Error("a conflict is found to be no change")
	}
}
