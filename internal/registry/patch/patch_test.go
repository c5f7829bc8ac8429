package patch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/registry/patch"
	"github.com/gapless-io/gapless/kube"
)

func refuse(_, _ []byte) ([]byte, error) { return nil, errors.New("no strategic merge here") }

func TestCopiesThatExplodeAreRefused(t *testing.T) {
	doc := []byte(`{"a":{"b":"` + strings.Repeat("x", 1000) + `"}}`)
	for name, body := range map[string]string{
		"doubling":     "[" + strings.Repeat(`{"op":"copy","from":"/a","path":"/a/c"},{"op":"copy","from":"/a","path":"/a/d"},`, 20) + `{"op":"remove","path":"/a"}]`,
		"same size":    "[" + strings.Repeat(`{"op":"copy","from":"/a/b","path":"/c"},`, 1_000) + `{"op":"add","path":"/z","value":1}]`,
		"just a few":   `[{"op":"copy","from":"/a","path":"/c"}]`,
		"move in self": `[{"op":"move","from":"/a","path":"/a/b"}]`,
	} {
		patched, _, err := patch.Apply(doc, kube.Patch{Type: types.JSONPatchType, Body: []byte(body)}, refuse)
		code := int32(200)
		if err != nil {
			code = kube.StatusOf(err).Code
		}
		want := map[string]int32{"doubling": 413, "same size": 200, "just a few": 200, "move in self": 422}[name]
		if code != want {
			t.Errorf("%s: %d (%v), want %d; %d bytes", name, code, err, want, len(patched))
		}
	}
}

func TestDuplicateFieldsOfAPatchAreReported(t *testing.T) {
	_, problems, err := patch.Apply([]byte(`{}`), kube.Patch{Type: types.MergePatchType, Body: []byte(`{"a":1,"a":2}`)}, refuse)
	if err != nil || len(problems) != 1 || problems[0].Error() != `duplicate field "a"` {
		t.Errorf("%v, %v", problems, err)
	}
}

func FuzzApply(f *testing.F) {
	for _, body := range []string{
		`[{"op":"add","path":"/metadata/labels","value":{}}]`,
		`[{"op":"replace","path":"/list/7","value":null}]`,
		`[{"op":"test","path":"/list/0/x","value":null}]`,
		`[{"op":"move","from":"/list/-1","path":"/list/-"}]`,
		`[{"op":"copy","from":"","path":"/a"},{"op":"remove","path":""}]`,
		`{"metadata":{"labels":{"a":null}},"list":[1]}`, `[]`, `null`, `[null]`, `[{"op":null}]`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	doc := []byte(`{"metadata":{"name":"a"},"list":[1,{"x":2},null],"n":1e3}`)
	f.Fuzz(func(t *testing.T, body []byte, isMerge bool) {
		kind := types.JSONPatchType
		if isMerge {
			kind = types.MergePatchType
		}
		patched, _, err := patch.Apply(doc, kube.Patch{Type: kind, Body: body}, refuse)
		if err == nil && !json.Valid(patched) {
			t.Errorf("%s made %q", body, patched)
		}
		if err != nil {
			if code := kube.StatusOf(err).Code; code < 400 || code > 499 {
				t.Errorf("%s: %d %v", body, code, err)
			}
		}
	})
}
