package fieldmanager

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

var rounds = flag.Int("rounds", 1, "how often TestUpdatesAreTrackedAsByTheLibrary plays each kind")

// updates plays random updates of one object, and compares the short way with upstream's
// library after each.
type updates struct {
	*testing.T
	rng             *rand.Rand
	managers        *Managers
	fixture         *unstructured.Unstructured
	compared, short int
}

// TestUpdatesAreTrackedAsByTheLibrary plays updates of upstream's fixtures and a custom
// resource by several managers, of the object and of its status, with configurations that are
// applied between them.
func TestUpdatesAreTrackedAsByTheLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all := fixtures(t)
	r, u := customs(t)
	all[r] = u
	m := New(kinds.NewLive(builtin.Catalog().With(r)), nil)
	seed := rand.Uint64()
	compared, short := 0, 0
	for round := range uint64(*rounds) {
		for r, u := range all {
			synctest.Test(t, func(t *testing.T) {
				steps := 15
				if r.Custom {
					steps = 200
				}
				p := &updates{T: t, rng: rand.New(rand.NewPCG(seed, round)), managers: m, fixture: u} //nolint:gosec // reproducible from the seed
				p.play(r, steps)
				compared, short = compared+p.compared, short+p.short
			})
			if t.Failed() {
				t.Fatalf("seed %d, round %d", seed, round)
			}
		}
	}
	t.Logf("%d of %d updates went the short way", short, compared)
	if compared < 500 || short < compared/4 {
		t.Errorf("%d of %d updates went the short way", short, compared)
	}
}

func (p *updates) play(r *kinds.Resource, steps int) {
	now := p.fixture.DeepCopy()
	now.SetManagedFields(nil)
	if err := create(p.managers, kinds.Target{Resource: r}, now, "one"); err != nil {
		p.Fatalf("create: %v", err)
	}
	for range steps {
		<-time.After(time.Duration(p.rng.IntN(3000)) * time.Millisecond) // the order of entries depends on it
		target := kinds.Target{Resource: r}
		if r.HasStatus && p.rng.IntN(3) == 0 {
			target.Subresource = "status"
		}
		if p.rng.IntN(8) == 0 {
			now = p.applied(target, now)
			continue
		}
		next := now.DeepCopy()
		for range p.rng.IntN(4) {
			p.change(next.Object)
		}
		if p.rng.IntN(3) == 0 {
			next.SetManagedFields(nil) // a client that does not know them
		}
		now = p.compare(target, next, now)
	}
}

// applied applies a part of the fixture.
func (p *updates) applied(t kinds.Target, now *unstructured.Unstructured) *unstructured.Unstructured {
	config := p.fixture.DeepCopy()
	config.SetManagedFields(nil)
	for range 3 {
		p.change(config.Object)
	}
	next, err := p.managers.Apply(t, now, Configuration{Object: config, Manager: "applier", Force: true})
	if err != nil {
		return now // the change does not fit the schema
	}
	return next
}

// compare returns what the library makes of an update.
func (p *updates) compare(t kinds.Target, next, now *unstructured.Unstructured) *unstructured.Unstructured {
	p.Helper()
	manager := []string{"one", "two", "three"}[p.rng.IntN(3)]
	f, err := p.managers.of(t)
	if err != nil {
		p.Fatalf("find the field manager: %v", err)
	}
	p.compared++
	got, was := next.DeepCopy(), now.DeepCopy()
	ok := f.updated(got.Object, was.Object, manager)
	if diff := cmp.Diff(now.Object, was.Object); diff != "" {
		p.Errorf("the old object was changed: %s", diff)
	}
	if !ok {
		if diff := cmp.Diff(next.Object, got.Object); diff != "" {
			p.Errorf("%s is not left as it was: %s", next.GetKind(), diff)
		}
	}
	want := next.DeepCopy()
	if _, err := f.Update(now.DeepCopy(), want, manager); err != nil {
		return now // what does not fit the schema is refused afterwards
	}
	if ok {
		p.short++
		if diff := cmp.Diff(entriesOf(want), entriesOf(got)); diff != "" {
			before, _ := json.Marshal(now.Object)
			after, _ := json.Marshal(next.Object)
			p.Errorf("%s: %s updates\n%s\nto\n%s\n-library +short: %s", t.Subresource, manager, before, after, diff)
		}
	}
	return want
}

// entriesOf takes managedFields out of an object, as decoded JSON.
func entriesOf(u *unstructured.Unstructured) any {
	text, _ := u.MarshalJSON()
	tree, _ := jsontree.Decode(text)
	entries, _, _ := unstructured.NestedFieldNoCopy(tree, "metadata", "managedFields")
	return entries
}

// change changes something in a tree.
func (p *updates) change(at any) {
	switch at := at.(type) {
	case map[string]any:
		names := make([]string, 0, len(at))
		for name := range at {
			if name != "apiVersion" && name != "kind" && name != "managedFields" {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return
		}
		slices.Sort(names)
		name := names[p.rng.IntN(len(names))]
		if name == "metadata" || !p.leaf(at[name]) && p.rng.IntN(4) > 0 {
			p.change(at[name])
			return
		}
		switch p.rng.IntN(8) {
		case 0, 1:
			delete(at, name)
		case 2:
			at[name] = nil
		case 3:
			at["added"+name] = runtime.DeepCopyJSONValue(at[name])
		default:
			at[name] = p.other(at[name])
		}
	case []any:
		if len(at) == 0 {
			return
		}
		i, k := p.rng.IntN(len(at)), p.rng.IntN(len(at))
		switch p.rng.IntN(6) {
		case 0:
			at[i], at[k] = at[k], at[i]
		case 1:
			at[i] = runtime.DeepCopyJSONValue(at[k]) // two that are equal
		default:
			if p.leaf(at[i]) {
				at[i] = p.other(at[i])
			} else {
				p.change(at[i])
			}
		}
	}
}

func (p *updates) leaf(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return true
}

// other returns another value, mostly of the same type.
func (p *updates) other(v any) any {
	if p.rng.IntN(20) == 0 {
		return []any{"x", int64(1), 1.5, true, nil, map[string]any{}, []any{}}[p.rng.IntN(7)]
	}
	switch v := v.(type) {
	case string:
		return v + string(rune('a'+p.rng.IntN(3)))
	case int64:
		return v + int64(p.rng.IntN(3))
	case float64:
		return v + 0.5
	case bool:
		return !v
	case []any:
		if n := len(v); n > 0 { // one item less, or one more
			if p.rng.IntN(2) == 0 {
				return slices.Delete(slices.Clone(v), n-1, n)
			}
			more := runtime.DeepCopyJSONValue(v[n-1])
			p.change(more)
			return append(slices.Clone(v), more)
		}
	case map[string]any:
		if len(v) == 0 {
			return map[string]any{"added": "x"}
		}
		return map[string]any{}
	}
	return v
}

// BenchmarkUpdate tracks an update of one field of a Pod: the short way, and by the library.
func BenchmarkUpdate(b *testing.B) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	tree, err := jsontree.Decode([]byte(pod))
	if err != nil {
		b.Fatalf("decode: %v", err)
	}
	r, _ := builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "pods"})
	was := &unstructured.Unstructured{Object: tree}
	target := kinds.Target{Resource: r}
	f, err := m.of(target)
	if err != nil {
		b.Fatalf("find it: %v", err)
	}
	if err := create(m, target, was, "m"); err != nil {
		b.Fatalf("create: %v", err)
	}
	now := was.DeepCopy()
	now.SetLabels(map[string]string{"app": "web", "tier": "back"})
	b.Run("short", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now.SetManagedFields(nil)
			if !f.updated(now.Object, was.Object, "m") {
				b.Fatal("it is left to the library")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now.SetManagedFields(nil)
			f.update(was, now, "m")
		}
	})
}
