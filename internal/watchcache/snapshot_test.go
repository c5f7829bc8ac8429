package watchcache_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestScanYieldsTheSelectionInByteOrderOfKeys(t *testing.T) {
	f := newFixture(t, watchcache.Config{},
		thing{namespace: "a", name: "x", app: "web", node: "n1"}.at(t, 1),
		thing{namespace: "a", name: "y", app: "db", node: "n2"}.at(t, 2),
		thing{namespace: "a-b", name: "x", app: "web", node: "n2"}.at(t, 3),
		thing{namespace: "b", name: "x", app: "db", node: "n1"}.at(t, 4),
	)
	byNode := func(n string) fields.Selector { return fields.OneTermEqualSelector("spec.node", n) }
	tests := []struct {
		name  string
		start string
		sel   watchcache.Selection
		want  []string
	}{
		{"everything: '-' is before '/'", "", watchcache.Selection{}, []string{"a-b/x", "a/x", "a/y", "b/x"}},
		{"start is inclusive", "a/y", watchcache.Selection{}, []string{"a/y", "b/x"}},
		{"start behind a key, as in a continue token", "a/y\x00", watchcache.Selection{}, []string{"b/x"}},
		{"one namespace", "", watchcache.Selection{Namespace: "a"}, []string{"a/x", "a/y"}},
		{"one namespace from a start", "a/y", watchcache.Selection{Namespace: "a"}, []string{"a/y"}},
		{"one namespace from an earlier start", "a-b/x", watchcache.Selection{Namespace: "a"}, []string{"a/x", "a/y"}},
		{"one object", "", watchcache.Selection{Namespace: "a", Name: "y"}, []string{"a/y"}},
		{"one object behind the start", "a/z", watchcache.Selection{Namespace: "a", Name: "y"}, nil},
		{"a name in all namespaces", "", watchcache.Selection{Name: "x"}, []string{"a-b/x", "a/x", "b/x"}},
		{"a name in all namespaces from a start", "a/y", watchcache.Selection{Name: "x"}, []string{"b/x"}},
		{"a name in all namespaces from itself", "a/x", watchcache.Selection{Name: "x"}, []string{"a/x", "b/x"}},
		{"a name in one of the namespaces", "", watchcache.Selection{Name: "y"}, []string{"a/y"}},
		{
			"a name in all namespaces, and a field", "",
			watchcache.Selection{Name: "x", Fields: byNode("n1")},
			[]string{"a/x", "b/x"},
		},
		{"a name in no namespace", "", watchcache.Selection{Name: "w"}, nil},
		{"labels", "", appIs("web"), []string{"a-b/x", "a/x"}},
		{"fields", "", watchcache.Selection{Fields: byNode("n1")}, []string{"a/x", "b/x"}},
		{
			"metadata.name as a field", "",
			watchcache.Selection{Fields: fields.OneTermEqualSelector("metadata.name", "y")},
			[]string{"a/y"},
		},
		{
			"name and labels that exclude it", "",
			watchcache.Selection{Namespace: "a", Name: "y", Labels: labels.SelectorFromSet(labels.Set{"app": "web"})},
			nil,
		},
		{"labels that match nothing", "", watchcache.Selection{Labels: labels.Nothing()}, nil},
		{"a namespace without objects", "", watchcache.Selection{Namespace: "c"}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, keys(f.cache.Snapshot(), test.start, test.sel)); diff != "" {
				t.Errorf("Scan (-want +got):\n%s", diff)
			}
			if test.sel.Name == "" && !test.sel.LooksInside() {
				if got := f.cache.Snapshot().Count(test.start, test.sel.Namespace); got != len(test.want) {
					t.Errorf("Count is %d, want %d", got, len(test.want))
				}
			}
		})
	}
}

func TestScanByNameFindsAClusterScopedObject(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, thing{name: "n1"}.at(t, 1), thing{name: "n2"}.at(t, 2))
	got := keys(f.cache.Snapshot(), "", watchcache.Selection{Name: "n2"})
	if diff := cmp.Diff([]string{"n2"}, got); diff != "" {
		t.Errorf("Scan (-want +got):\n%s", diff)
	}
	empty := newFixture(t, watchcache.Config{})
	if got := keys(empty.cache.Snapshot(), "", watchcache.Selection{Name: "n2"}); got != nil {
		t.Errorf("Scan of nothing = %v", got)
	}
}

func TestScanCanEndEarlyAndBeginAgain(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, thing{name: "a"}.at(t, 1), thing{name: "b"}.at(t, 2))
	all := f.cache.Snapshot().Scan("", watchcache.Selection{})
	for o := range all {
		if o.Key().Name != "a" {
			t.Errorf("first object is %s", o.Key())
		}
		break
	}
	count := 0
	for range all {
		count++
	}
	if count != 2 {
		t.Errorf("the second walk yields %d objects, want 2", count)
	}
}

func TestSnapshotDoesNotChangeWhenTheCacheDoes(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, thing{name: "a", app: "old"}.at(t, 1))
	before := f.cache.Snapshot()
	f.put(101, thing{name: "a", app: "new"})
	f.put(102, thing{name: "b"})
	object, found := before.Get(wire.Key{Name: "a"})
	if !found || object.Labels()["app"] != "old" || before.Len() != 1 || before.RV() != loadedAt {
		t.Errorf("the old snapshot shows %v (found %t), %d objects at %d", object.Labels(), found, before.Len(), before.RV())
	}
	if _, found := before.Get(wire.Key{Name: "b"}); found {
		t.Error("the old snapshot has an object that was created later")
	}
	if after := f.cache.Snapshot(); after.Len() != 2 || after.RV() != 102 {
		t.Errorf("the new snapshot has %d objects at %d, want 2 at 102", after.Len(), after.RV())
	}
}

func TestSnapshotOfAnIdleResourceMovesWithTheClock(t *testing.T) {
	f := newFixture(t, watchcache.Config{}, thing{name: "a"}.at(t, 1))
	f.clock.Publish(5000)
	if got := f.cache.Snapshot().RV(); got != 5000 {
		t.Errorf("Snapshot().RV() = %d, want 5000", got)
	}
}

func TestSnapshotIncludesUnpublishedEntries(t *testing.T) {
	f := newFixture(t, watchcache.Config{})
	f.cache.Append(watchcache.NewEntry(101, thing{name: "a"}.at(t, 101), nil))
	if s := f.cache.Snapshot(); s.RV() != 101 || s.Len() != 1 {
		t.Errorf("snapshot at %d with %d objects, want 101 with 1", s.RV(), s.Len())
	}
}
