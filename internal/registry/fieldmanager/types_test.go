package fieldmanager

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// perKind is about how many variants of a fixture are compared.
const perKind = 20

// TestTypesAreUpstreams compares how the fields of built-in kinds merge with what client-go
// says, by the sets of fields of upstream's fixtures, which have every field, and of each
// fixture without one member of each object in it in turn, such as the key of a list.
func TestTypesAreUpstreams(t *testing.T) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	ours, err := m.builtIn()
	if err != nil {
		t.Fatalf("built in: %v", err)
	}
	upstreams := applied()
	count, checked := 0, 0
	for _, u := range fixtures(t) {
		count++
		compare := func() {
			checked++
			compareSets(t, u, ours, upstreams)
		}
		compare()
		members := 0
		without(u.Object, func() { members++ })
		every, i := max(1, members/perKind), 0
		without(u.Object, func() {
			if i++; i%every == 0 {
				compare()
			}
		})
	}
	if count < 35 || checked < 500 {
		t.Errorf("%d kinds and %d objects are too few", count, checked)
	}
	t.Logf("%d kinds, %d objects", count, checked)
}

// applied is upstream's description of how fields merge.
var applied = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// fixtures returns upstream's objects of the built-in kinds that client-go describes, with a
// value in every field.
func fixtures(t *testing.T) map[*kinds.Resource]*unstructured.Unstructured {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatalf("run the command: %v", err)
	}
	all := map[*kinds.Resource]*unstructured.Unstructured{}
	for _, r := range builtin.Catalog().Resources() {
		group := r.Group
		if group == "" {
			group = "core"
		}
		body, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD",
			strings.Join([]string{group, r.Version, r.Kind, "json"}, ".")))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatalf("read a file: %v", err)
		}
		tree, err := jsontree.Decode(body)
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		u := &unstructured.Unstructured{Object: tree}
		if _, err := applied().ObjectToTyped(u); runtime.IsNotRegisteredError(err) ||
			err != nil && strings.Contains(err.Error(), "no type found") {
			t.Logf("%s has no type in client-go: %v", r.Kind, err)
			continue
		}
		all[r] = u
	}
	return all
}

// without calls fn with each member of each object removed in turn.
func without(at any, fn func()) {
	switch at := at.(type) {
	case map[string]any:
		for name, value := range at {
			delete(at, name)
			if name != "apiVersion" && name != "kind" {
				fn()
			}
			at[name] = value
			without(value, fn)
		}
	case []any:
		for _, value := range at {
			without(value, fn)
		}
	}
}

func compareSets(t *testing.T, u *unstructured.Unstructured, ours, upstreams managedfields.TypeConverter) {
	t.Helper()
	got, gotErr := setOf(ours, u)
	want, wantErr := setOf(upstreams, u)
	if (gotErr == nil) != (wantErr == nil) {
		t.Errorf("%s: got error %v, want %v", u.GroupVersionKind(), gotErr, wantErr)
	}
	if gotErr == nil && !got.Equals(want) {
		text, _ := json.Marshal(u.Object)
		t.Errorf("%s: %.0s\nonly here: %s\nonly upstream: %s",
			u.GroupVersionKind(), text, got.Difference(want), want.Difference(got))
	}
}

func setOf(types managedfields.TypeConverter, u *unstructured.Unstructured) (*fieldpath.Set, error) {
	value, err := types.ObjectToTyped(u, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	return value.ToFieldSet()
}

func BenchmarkBuiltInTypes(b *testing.B) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.readBuiltIn(); err != nil {
			b.Fatalf("read built in: %v", err)
		}
	}
}

// TestCreationsAreTrackedAsUpstream compares who manages what after the creation of upstream's
// fixtures with what upstream's field manager says of the same structs.
func TestCreationsAreTrackedAsUpstream(t *testing.T) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	count := 0
	for r, u := range fixtures(t) {
		kind := r.GVK()
		count++
		u.SetManagedFields(nil)
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			t.Fatalf("make the scheme: %v", err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
			t.Fatalf("decode the object: %v", err)
		}
		blank, err := scheme.Scheme.New(kind)
		if err != nil {
			t.Fatalf("make the scheme: %v", err)
		}
		blank.GetObjectKind().SetGroupVersionKind(kind)
		target := kinds.Target{Resource: r}
		f, err := m.of(target)
		if err != nil {
			t.Fatalf("find it: %v", err)
		}
		upstreams, err := managedfields.NewDefaultFieldManager(applied(), scheme.Scheme, defaults{}, scheme.Scheme, kind,
			kind.GroupVersion(), "", f.reset())
		if err != nil {
			t.Fatalf("make a field manager: %v", err)
		}
		want, err := upstreams.Update(blank, object, "m")
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if err := create(m, target, u, "m"); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		accessor, err := meta.Accessor(want)
		if err != nil {
			t.Fatalf("accessor: %v", err)
		}
		if got, want := owned(t, u.GetManagedFields()), owned(t, accessor.GetManagedFields()); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", kind, got, want)
		}
	}
	if count < 35 {
		t.Errorf("only %d kinds were compared", count)
	}
}

// owned shows managedFields without their times.
func owned(t *testing.T, entries []metav1.ManagedFieldsEntry) string {
	t.Helper()
	if len(entries) != 1 {
		t.Errorf("%d entries", len(entries))
	}
	for i := range entries {
		entries[i].Time = nil
	}
	text, err := json.Marshal(entries)
	if err != nil {
		t.Fatalf("encode as JSON: %v", err)
	}
	return string(text)
}
