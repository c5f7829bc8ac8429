package patch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/patch"
	"github.com/gapless-io/gapless/internal/wire"
)

func refuse(_, _ []byte) ([]byte, error) { return nil, errors.New("no strategic merge here") }

func TestPatchesThatGrowByCopiesAreRefused(t *testing.T) {
	doc := []byte(`{"a":{"b":"` + strings.Repeat("x", 1000) + `"}}`)
	for name, body := range map[string]string{
		"doubling": "[" + strings.Repeat(`{"op":"copy","from":"/a","path":"/a/c"},{"op":"copy","from":"/a","path":"/a/d"},`,
			20) + `{"op":"remove","path":"/a"}]`,
		"same size": "[" + strings.Repeat(`{"op":"copy","from":"/a/b","path":"/c"},`,
			1_000) + `{"op":"add","path":"/z","value":1}]`,
		"just a few":   `[{"op":"copy","from":"/a","path":"/c"}]`,
		"move in self": `[{"op":"move","from":"/a","path":"/a/b"}]`,
	} {
		patched, _, err := patch.New(wire.Patch{Type: types.JSONPatchType, Body: []byte(body)}).Apply(doc, refuse)
		code := int32(200)
		if err != nil {
			code = wire.StatusOf(err).Code
		}
		want := map[string]int32{"doubling": 413, "same size": 200, "just a few": 200, "move in self": 422}[name]
		if code != want {
			t.Errorf("%s: %d (%v), want %d; %d bytes", name, code, err, want, len(patched))
		}
	}
}

func TestDuplicateFieldsOfAPatchAreReported(t *testing.T) {
	_, problems, err := patch.New(wire.Patch{Type: types.MergePatchType, Body: []byte(`{"a":1,"a":2}`)}).Apply([]byte(`{}`),
		refuse)
	if err != nil || len(problems) != 1 || problems[0].Error() != `duplicate field "a"` {
		t.Errorf("%v, %v", problems, err)
	}
}

// agreed are patches on which this package and the library that upstream uses must
// agree, and on all that are like them.
func agreed() []string {
	return []string{
		`[{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/labels/a~1b~0c","value":"x"}]`,
		`[{"op":"replace","path":"/list/7","value":null}]`, `[{"op":"replace","path":"/list/-1","value":[]}]`,
		`[{"op":"replace","path":"/none","value":1}]`, `[{"op":"replace","path":"","value":{"a":1}}]`,
		`[{"op":"replace","path":"","value":7}]`,
		`[{"op":"test","path":"/list/0","value":1}]`, `[{"op":"test","path":"/list/0","value":1.0}]`,
		`[{"op":"test","path":"/none","value":null}]`,
		`[{"op":"test","path":"/list","value":[1,{"x":2},null]}]`, `[{"op":"test","path":"","value":{}}]`,
		`[{"op":"move","from":"/list/-1","path":"/list/-"}]`, `[{"op":"move","from":"/list/1","path":"/list/1/x"}]`,
		`[{"op":"move","from":"/none","path":"/n"}]`,
		`[{"op":"copy","from":"/list","path":"/metadata/l"},{"op":"add","path":"/metadata/l/0","value":0},{"op":"test","path":"/list/0","value":1}]`,
		`[{"op":"copy","from":"/none","path":"/a"}]`, `[{"op":"copy","from":"","path":"/a"}]`, `[{"op":"remove","path":""}]`,
		`[{"op":"remove","path":"/list/-9"}]`,
		`[{"op":"remove","path":"/list/0"},{"op":"add","path":"/list/2","value":{"y":{}}},{"op":"add","path":"/list/2/y/z","value":1e3}]`,
		`[{"op":"add","path":"/list/9","value":1}]`, `[{"op":"add","path":"/list/x","value":1}]`,
		`[{"op":"add","path":"/n/x","value":1}]`, `[{"op":"add","path":"n","value":1}]`,
		`[{"op":"frob","path":"/n"}]`, `[{"path":"/n"}]`, `[{"op":"add","value":1}]`, `[null]`, `[]`, `null`, `[{"op":null}]`,
		`[{"op":"add","path":"/n"}]`,
		`{"metadata":{"labels":{"a":null,"b":[{"c":null}]}},"list":[1,null,{"x":null}]}`, `{"metadata":[{"a":null}]}`,
		`{"n":{"a":null,"b":{"c":null}}}`, `{"list":{"a":null}}`,
	}
}

// agree compares what this package makes of a document with what the library does,
// where that does not panic (as for null in a list that is tested), and where the
// patch was not refused before (400), which upstream does too.
func agree(t *testing.T, doc, body []byte, kind types.PatchType) {
	t.Helper()
	got, _, err := patch.New(wire.Patch{Type: kind, Body: body}).Apply(doc, refuse)
	if err != nil && wire.StatusOf(err).Code == 400 {
		return
	}
	var want []byte
	var wantErr error
	panicked := true
	func() {
		defer func() { panicked = panicked && recover() != nil }()
		if kind == types.MergePatchType {
			want, wantErr = jsonpatch.MergePatch(doc, body)
		} else if steps, err := jsonpatch.DecodePatch(body); err != nil {
			wantErr = err
		} else {
			want, wantErr = steps.Apply(doc)
		}
		panicked = false
	}()
	if panicked {
		return
	}
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%s: %v, the library says %v", body, err, wantErr)
	}
	var is, was any
	if err == nil && (json.Unmarshal(got, &is) != nil || json.Unmarshal(want, &was) != nil || !reflect.DeepEqual(is, was)) {
		t.Fatalf("%s makes %s, with the library %s", body, got, want)
	}
}

func TestPatchesMatchTheUpstreamLibrary(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 1000
	}
	doc := []byte(`{"metadata":{"name":"a"},"list":[1,{"x":2},null],"n":1e3}`)
	for _, body := range agreed() {
		kind := types.JSONPatchType
		if strings.HasPrefix(body, "{") {
			kind = types.MergePatchType
		}
		agree(t, doc, []byte(body), kind)
	}
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 2))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	path := func() string {
		return strings.Repeat(pick("", "/list", "/o", "/o/a", "/list/1"), 1) + pick("/0",
			"/1", "/-1", "/-", "/a", "/b", "", "/list", "/o", "/n")
	}
	value := func() string { return pick("1", "null", `"s"`, "[]", "{}", `{"a":{"b":null}}`, `[1,[2]]`, "1.0") }
	for i := range rounds {
		var steps []string
		for range 1 + r.IntN(6) {
			steps = append(steps, fmt.Sprintf(`{"op":%q,"path":%q,"from":%q,"value":%s}`,
				pick("add", "add", "add", "remove", "replace", "move", "copy", "test"), path(), path(), value()))
		}
		doc := fmt.Sprintf(`{"list":[1,%s,%s],"o":{"a":%s},"n":%s}`, value(), value(), value(), value())
		agree(t, []byte(doc), []byte("["+strings.Join(steps, ",")+"]"), types.JSONPatchType)
		agree(t, []byte(doc), fmt.Appendf(nil, `{"list":%s,"o":{"a":%s,"b":%s},"n":%s}`, value(), value(), value(), value()),
			types.MergePatchType)
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, i)
		}
	}
}

func TestWorkOfAPatchIsBounded(t *testing.T) {
	steps := func(n int, step string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(step+",", n), ",") + "]"
	}
	items := func(n int) string { return `{"l":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}` }
	const prepend, shift = `{"op":"add","path":"/l/0","value":1}`, `{"op":"remove","path":"/l/0"}`
	for _, c := range []struct {
		name, doc, body string
		kind            types.PatchType
		want            int32
	}{
		{"10 000 in front of nothing", `{"l":[]}`, steps(10_000, prepend), types.JSONPatchType, 200},
		{"10 000 in front of many", items(100_000), steps(10_000, prepend), types.JSONPatchType, 413},
		{"10 000 taken from many", items(100_000), steps(10_000, shift), types.JSONPatchType, 413},
		{"10 000 behind many", items(100_000), steps(10_000, `{"op":"add","path":"/l/-","value":1}`), types.JSONPatchType, 200},
		{
			"deep", strings.Repeat(`{"a":`, 5_000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("}", 5_000),
			steps(100, `{"op":"test","path":"`+strings.Repeat("/a", 4_999)+`/b","value":null}`), types.JSONPatchType, 200,
		},
	} {
		_, _, err := patch.New(wire.Patch{Type: c.kind, Body: []byte(c.body)}).Apply([]byte(c.doc), refuse)
		code := int32(200)
		if err != nil {
			code = wire.StatusOf(err).Code
		}
		if code != c.want {
			t.Errorf("%s: %d (%v), want %d", c.name, code, err, c.want)
		}
	}
}

// TestPatchIsParsedOnce applies one patch again, as a retry does.
func TestPatchIsParsedOnce(t *testing.T) {
	p := patch.New(wire.Patch{
		Type: types.JSONPatchType,
		Body: []byte(`[{"op":"add","path":"/a","value":{"b":[]}},{"op":"add","path":"/a/b/-","value":1}]`),
	})
	for _, doc := range []string{`{}`, `{"a":1}`, `{}`} {
		got, _, err := p.Apply([]byte(doc), refuse)
		if string(got) != `{"a":{"b":[1]}}` {
			t.Errorf("%s becomes %s, %v", doc, got, err)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, body := range agreed() {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	doc := []byte(`{"metadata":{"name":"a"},"list":[1,{"x":2},null],"n":1e3}`)
	f.Fuzz(func(t *testing.T, body []byte, isMerge bool) {
		kind := types.JSONPatchType
		if isMerge {
			kind = types.MergePatchType
		}
		agree(t, doc, body, kind)
		patched, _, err := patch.New(wire.Patch{Type: kind, Body: body}).Apply(doc, refuse)
		if err == nil && !json.Valid(patched) {
			t.Errorf("%s made %q", body, patched)
		}
		if err != nil {
			if code := wire.StatusOf(err).Code; code < 400 || code > 499 {
				t.Errorf("%s: %d %v", body, code, err)
			}
		}
	})
}
