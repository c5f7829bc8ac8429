package gotype_test

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/gotype"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// fixtures returns upstream's round-trip fixtures of the built-in kinds, in which every
// field is set.
func fixtures(tb testing.TB) map[*kinds.Resource][]byte {
	tb.Helper()
	dir, err := exec.CommandContext(tb.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		tb.Fatal(err)
	}
	all := map[*kinds.Resource][]byte{}
	for _, r := range builtin.Catalog().Resources() {
		group := r.Group
		if group == "" {
			group = "core"
		}
		name := strings.Join([]string{group, r.Version, r.Kind, "json"}, ".")
		body, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "testdata", "HEAD", name))
		switch {
		case errors.Is(err, fs.ErrNotExist): // CustomResourceDefinition, which is of another module
			continue
		case err != nil:
			tb.Fatal(err)
		}
		all[r] = body
	}
	if len(all) < 35 {
		tb.Fatalf("only %d kinds have fixtures", len(all))
	}
	return all
}

// check compares both ways from a body to what is stored and to the struct. It reports
// whether this package could read the body.
func check(tb testing.TB, typ reflect.Type, body []byte) (read bool) {
	tb.Helper()
	s, err := gotype.Of(typ)
	if err != nil {
		tb.Fatal(err)
	}
	got, err := jsontree.DecodePlain(body)
	read = err == nil && s.Normalize(got)
	if tree, _, ok := s.Decode(body); ok != read || ok && !cmp.Equal(got, tree) {
		tb.Fatalf("%s\nis decoded by the way of a tree (%t) and in one pass (%t) differently: %s",
			body, read, ok, cmp.Diff(got, tree))
	}
	if !read {
		return false
	}
	object := reflect.New(typ).Interface()
	problems, err := kjson.UnmarshalStrict(body, object)
	if err != nil || len(problems) > 0 {
		tb.Fatalf("%s\nwas read, but %v %v", body, err, problems)
	}
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		tb.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Fatalf("%s\nis encoded differently (-struct +tree): %s", body, diff)
	}
	if tree, ok := s.Tree(object); !ok || !cmp.Equal(want, tree) {
		tb.Fatalf("%s\nis made a tree differently: %t %s", body, ok, cmp.Diff(want, tree))
	}
	filled, decoded := reflect.New(typ).Interface(), reflect.New(typ).Interface()
	if !s.Fill(filled, got) {
		tb.Fatalf("%s\nwas read, but does not fit into %s", body, typ)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(want, decoded); err != nil {
		tb.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(filled, decoded) {
		tb.Fatalf("%s\nfills %s differently: %s", body, typ, cmp.Diff(decoded, filled))
	}
	return true
}

// unknown are the kinds whose fixtures hold something of which this package knows nothing.
var unknown = map[string]string{
	"ControllerRevision": "data of any type", "PodDisruptionBudget": "null in a map",
	"DeviceClass": "parameters of any type", "ResourceClaim": "the same", "ResourceClaimTemplate": "the same",
}

// perKind is about how many variants of a fixture are checked.
var perKind = flag.Int("variants", 10, "how many variants of each fixture to check")

func TestFixturesAreReadAsTheStructsReadThem(t *testing.T) {
	for r, body := range fixtures(t) {
		t.Run(r.GR().String(), func(t *testing.T) {
			tree, err := jsontree.DecodePlain(body)
			if err != nil {
				t.Fatal(err)
			}
			read := check(t, r.GoType, encoded(t, tree))
			if _, is := unknown[r.Kind]; read == is {
				t.Errorf("%s was read: %t", r.Kind, read)
			}
			all, checked := 0, 0
			variants(tree, func() { all++ })
			every := all / *perKind
			variants(tree, func() {
				if checked++; every == 0 || checked%every == 0 {
					check(t, r.GoType, encoded(t, tree))
				}
			})
		})
	}
}

func encoded(tb testing.TB, tree map[string]any) []byte {
	tb.Helper()
	body, err := json.Marshal(tree)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// variants calls fn with each value of a tree removed and replaced in turn.
func variants(at any, fn func()) {
	others := []any{
		nil, "", "x", "5", "-1", "2006-01-02T15:04:05Z", "YQ==", int64(0), int64(1 << 40), true, false, 1.5, 0.25, int64(2000),
		map[string]any{},
		[]any{},
	}
	switch at := at.(type) {
	case map[string]any:
		for name, was := range at {
			delete(at, name)
			fn()
			for _, other := range others {
				at[name] = other
				fn()
			}
			at[name] = was
			variants(was, fn)
		}
	case []any:
		for i, was := range at {
			for _, other := range others {
				at[i] = other
				fn()
			}
			at[i] = was
			variants(was, fn)
		}
	}
}

func FuzzNormalize(f *testing.F) {
	var kinds []reflect.Type
	for r, body := range fixtures(f) {
		f.Add(uint8(len(kinds)), body) //nolint:gosec // there are about 50 kinds
		kinds = append(kinds, r.GoType)
	}
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) { check(t, kinds[int(kind)%len(kinds)], body) })
}

func TestOfRefusesWhatIsNoStruct(t *testing.T) {
	if s, err := gotype.Of(reflect.TypeFor[[]string]()); err == nil {
		t.Errorf("got %v", s)
	}
}
