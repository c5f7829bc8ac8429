package fieldmanager

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// FuzzApply applies any configuration to any object with any managedFields, and then
// replaces the result by the configuration: nothing panics, every refusal is an answer, and
// what was applied can be applied again.
func FuzzApply(f *testing.F) {
	r, u := customs(f)
	custom, err := u.MarshalJSON()
	if err != nil {
		f.Fatalf("encode as JSON: %v", err)
	}
	catalog := builtin.Catalog().With(r)
	pods, _ := catalog.Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "pods"})
	m := New(kinds.NewLive(catalog), nil)
	const fields = `[{"manager":"x","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z",` +
		`"fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}},"f:set":{"v:\"a\"":{}}}}}]`
	f.Add(true, custom, custom, []byte(fields))
	f.Add(true, custom, []byte("apiVersion: t.example.com/v1\nkind: Thing\nspec: {set: [a, a], keyed: [{name: x}, {port: 1}]}"),
		[]byte(`[{}]`))
	f.Add(false, []byte(pod), []byte(pod), []byte(fields))
	f.Add(false, []byte(pod),
		[]byte(`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","ports":[{"containerPort":80},{}]},null]}}`),
		[]byte(`[{"fieldsV1":{"i:0":{},"f:":{}}}]`))
	f.Fuzz(func(t *testing.T, isCustom bool, object, config, managedFields []byte) {
		target := kinds.Target{Resource: pods}
		if isCustom {
			target.Resource = r
		}
		sent, _, err := Read(config, kinds.FieldsWarn)
		if err != nil {
			if wire.StatusOf(err).Code >= 500 {
				t.Fatal(err)
			}
			return
		}
		old, err := jsontree.Decode(object)
		if err != nil {
			return
		}
		live := &unstructured.Unstructured{Object: old}
		if entries, err := jsontree.Decode([]byte(`{"x":` + string(managedFields) + `}`)); err == nil {
			if meta, is := old["metadata"].(map[string]any); is {
				meta["managedFields"] = entries["x"]
			}
		}
		applied, err := m.Apply(target, live, Configuration{Object: sent, Manager: "m", Force: true})
		if err == nil {
			again := Configuration{Object: sent, Manager: "m"}
			if _, err := m.Apply(target, applied, again); err != nil {
				t.Errorf("applying again: %v", err)
			}
		}
		next := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(sent.Object)}
		if _, err := m.Update(target, next, live, "n"); err != nil {
			t.Errorf("update: %v", err)
		}
		if _, err := m.Update(target, sent, nil, "n"); err != nil {
			t.Errorf("update: %v", err)
		}
	})
}
