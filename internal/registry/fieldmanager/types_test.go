package fieldmanager

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/builtin"
)

// perKind is about how many variants of a fixture are compared.
const perKind = 40

// TestTypesAreUpstreams compares how the fields of built-in kinds merge with what client-go
// says, by the sets of fields of upstream's fixtures, which have every field, and of each
// fixture without one member of each object in it in turn, such as the key of a list.
func TestTypesAreUpstreams(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		t.Fatal(err)
	}
	m := New(schema.NewLive(builtin.Catalog()))
	ours, err := m.builtIn()
	if err != nil {
		t.Fatal(err)
	}
	upstreams := applyconfigurations.NewTypeConverter(scheme.Scheme)
	kinds, checked := 0, 0
	for _, r := range builtin.Catalog().Resources() {
		group := r.Group
		if group == "" {
			group = "core"
		}
		body, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", strings.Join([]string{group, r.Version, r.Kind, "json"}, ".")))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(body, &u.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := upstreams.ObjectToTyped(u); runtime.IsNotRegisteredError(err) || err != nil && strings.Contains(err.Error(), "no type found") {
			t.Logf("%s has no type in client-go: %v", r.Kind, err)
			continue
		}
		kinds++
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
	if kinds < 35 || checked < 1000 {
		t.Errorf("%d kinds and %d objects are too few", kinds, checked)
	}
	t.Logf("%d kinds, %d objects", kinds, checked)
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
		t.Errorf("%s: %.0s\nonly here: %s\nonly upstream: %s", u.GroupVersionKind(), text, got.Difference(want), want.Difference(got))
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
	m := New(schema.NewLive(builtin.Catalog()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.readBuiltIn(); err != nil {
			b.Fatal(err)
		}
	}
}
