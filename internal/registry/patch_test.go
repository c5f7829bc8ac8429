package registry_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestPatchTypesChangeTheObject(t *testing.T) {
	s := serve(t)
	s.create(s.at("configmaps", "default"), configMap("a"))
	at := s.at("configmaps", "default", "a")
	for _, c := range []struct {
		kind types.PatchType
		body string
		want map[string]any
	}{
		{types.MergePatchType, `{"data":{"b":"2"}}`, map[string]any{"a": "1", "b": "2"}},
		{
			types.JSONPatchType,
			`[{"op":"test","path":"/data/b","value":"2"},{"op":"remove","path":"/data/a"},{"op":"add",` +
				`"path":"/data/c","value":"3"}]`,
			map[string]any{"b": "2", "c": "3"},
		},
		{types.StrategicMergePatchType, `{"data":{"b":null,"d":"4"}}`, map[string]any{"c": "3", "d": "4"}},
	} {
		out, err := s.Patch(t.Context(), at, wire.Patch{Type: c.kind, Body: []byte(c.body)}, metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		if diff := cmp.Diff(c.want, field(t, out.Object, "data")); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.kind, diff)
		}
	}
}

func TestPatchRefusals(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), definition(""))
	old := s.create(s.at(foos, "default"), foo("a", `{"a":"1"}`))
	now := s.merge(s.at(foos, "default", "a"), `{"spec":{"a":"2"}}`)
	many := "[" + strings.Repeat(`{"op":"add","path":"/spec/n","value":1},`, 10_000) + `{"op":"add","path":"/spec/n","value":1}]`
	const wrong = `422 Invalid the server rejected our request due to an error in our request`
	for _, c := range []struct {
		name   string
		kind   types.PatchType
		object string
		body   string
		want   string
	}{
		{
			"strategic of a custom resource", types.StrategicMergePatchType, "a", `{}`,
			`415 UnsupportedMediaType the body of the request was in an unknown format - accepted media types include: ` +
				`application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml`,
		},
		{
			"apply without a manager", types.ApplyYAMLPatchType, "a", `{}`,
			`422 Invalid PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`,
		},
		{"missing", types.MergePatchType, "b", `{}`, `404 NotFound foos.t.example.com "b" not found`},
		{
			"stale", types.MergePatchType, "a", `{"metadata":{"resourceVersion":"` + old.ResourceVersion().String() + `"}}`,
			`409 Conflict Operation cannot be fulfilled on foos.t.example.com "a": the object has been modified; please apply ` +
				`your changes to the latest version and try again`,
		},
		{"test fails", types.JSONPatchType, "a", `[{"op":"test","path":"/spec/a","value":"1"}]`, wrong},
		{"bad path", types.JSONPatchType, "a", `[{"op":"remove","path":"/spec/nothing"}]`, wrong},
		{
			"bad index", types.JSONPatchType, "a",
			`[{"op":"add","path":"/metadata/finalizers","value":[]},{"op":"replace",` +
				`"path":"/metadata/finalizers/-9","value":"x"}]`, wrong,
		},
		{"unknown operation", types.JSONPatchType, "a", `[{"op":"frob","path":"/spec/a"}]`, wrong},
		{
			"no JSON patch", types.JSONPatchType, "a", `{"op":"add"}`,
			`400 BadRequest error decoding patch: json: cannot unmarshal object into Go value of type []patch.operation`,
		},
		{"no JSON", types.MergePatchType, "a", `{`, `400 BadRequest error decoding patch: unexpected end of JSON input`},
		{"null", types.MergePatchType, "a", `null`, `400 BadRequest error decoding patch: Invalid JSON Patch`},
		{
			"too many", types.JSONPatchType, "a", many,
			`413 RequestEntityTooLarge Request entity too large: The allowed maximum operations in a JSON patch ` +
				`is 10000, got 10001`,
		},
		{
			"another name", types.MergePatchType, "a", `{"metadata":{"name":"z"}}`,
			`400 BadRequest the name of the object (z) does not match the name on the URL (a)`,
		},
		{
			"another uid", types.MergePatchType, "a", `{"metadata":{"uid":"zzz"}}`,
			`422 Invalid Foo.t.example.com "a" is invalid: metadata.uid: Invalid value: "zzz": field is immutable`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Patch(t.Context(), s.at(foos, "default", c.object), wire.Patch{Type: c.kind, Body: []byte(c.body)},
				metav1.PatchOptions{})
			if diff := cmp.Diff(c.want, status(err)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if is := s.get(s.at(foos, "default", "a")); is != now {
		t.Errorf("refused patches changed the object to %s", is.JSON())
	}
	_, err := s.Patch(t.Context(), s.at(foos, "default", "a"), wire.Patch{Type: types.MergePatchType, Body: []byte(`{}`)},
		metav1.PatchOptions{Force: new(true)})
	if diff := cmp.Diff(
		`422 Invalid PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`,
		status(err)); diff != "" {
		t.Error(diff)
	}
}

func TestConcurrentPatchesAreAllApplied(t *testing.T) {
	s := serve(t)
	s.create(s.at("configmaps", "default"), configMap("a"))
	at := s.at("configmaps", "default", "a")
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				s.merge(at, fmt.Sprintf(`{"data":{"w%d-%d":"x"}}`, w, i))
			}
		})
	}
	wg.Wait()
	data, _ := field(t, s.get(at), "data").(map[string]any)
	if len(data) != writers*each+1 {
		t.Errorf("%d keys, want %d", len(data), writers*each+1)
	}
}

// TestSlowPatchSucceedsAmongFastWriters patches an object with 10 000 items while
// others write it without a pause. If it were lost more than five times it would get
// 409.
func TestSlowPatchSucceedsAmongFastWriters(t *testing.T) {
	s := serve(t)
	s.create(s.at(crds), strings.Replace(definition(""), `"a":{`, `"l":{"type":"array","items":{"type":"integer"}},"a":{`, 1))
	at := s.at(foos, "default", "a")
	s.create(s.at(foos, "default"), foo("a", `{"a":"0","l":[]}`))
	var wg sync.WaitGroup
	var over atomic.Bool
	wrote := make(chan struct{}, 1)
	for w := range 4 {
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				body := fmt.Sprintf(`{"spec":{"a":"%d-%d"}}`, w, i)
				if _, err := s.Patch(t.Context(), at, wire.Patch{Type: types.MergePatchType, Body: []byte(body)},
					metav1.PatchOptions{}); err != nil {
					t.Errorf("patch: %v", err)
				}
				select {
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	for i := range 3 {
		<-wrote
		steps := `[{"op":"replace","path":"/spec/l","value":[]}` + strings.Repeat(`,{"op":"add","path":"/spec/l/0","value":1}`,
			9_999) + `]`
		if _, err := s.Patch(t.Context(), at, wire.Patch{Type: types.JSONPatchType, Body: []byte(steps)},
			metav1.PatchOptions{}); err != nil {
			t.Errorf("the slow patch %d: %v", i, err)
		}
	}
	over.Store(true)
	wg.Wait()
	if l, _ := field(t, s.get(at), "spec", "l").([]any); len(l) != 9_999 {
		t.Errorf("%d items, want 9999", len(l))
	}
}
