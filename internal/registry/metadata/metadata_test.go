package metadata_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/registry/metadata"
)

func anyName(string, bool) []string { return nil }

// check compares what this package says with apimachinery's validation.
func check(t *testing.T, meta, old map[string]any, namespaced bool) (valid bool) {
	t.Helper()
	if !metadata.Valid(meta, namespaced) {
		return false
	}
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": meta}}
	if errs := apivalidation.ValidateObjectMetaAccessor(u, namespaced, anyName, field.NewPath("metadata")); len(errs) > 0 {
		t.Errorf("%v is called valid, but %v", meta, errs)
	}
	if old != nil && metadata.Valid(old, namespaced) && metadata.ValidUpdate(meta, old) {
		before := &unstructured.Unstructured{Object: map[string]any{"metadata": old}}
		if errs := apivalidation.ValidateObjectMetaAccessorUpdate(u, before, field.NewPath("metadata")); len(errs) > 0 {
			t.Errorf("%v is called a valid update of %v, but %v", meta, old, errs)
		}
	}
	return true
}

func decode(text string) map[string]any {
	var meta map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &meta) != nil {
		return nil
	}
	return meta
}

const ordinary = `{"name":"a","namespace":"ns-1","uid":"u","creationTimestamp":"2026-01-01T00:00:00Z","generation":1,
	"labels":{"app":"x","app.kubernetes.io/name":"A_b.c-1","empty":""},"annotations":{"example.com/x":"any text"},
	"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}},"subresource":"status"}]}`

func TestOrdinaryMetadataIsRecognized(t *testing.T) {
	if !check(t, decode(ordinary), nil, true) {
		t.Error("ordinary metadata is not called valid")
	}
	if !check(t, decode(`{"name":"a"}`), nil, false) {
		t.Error("metadata with no more than a name is not called valid")
	}
}

func TestInvalidMetadataIsNotRecognized(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"name":""}`, `{"name":1}`, `{"name":"a"}`, `{"name":"a","namespace":""}`, `{"name":"a","namespace":"N"}`,
		`{"name":"a","namespace":"-n"}`, `{"name":"a","namespace":"n.n"}`,
		`{"name":"a","namespace":"` + strings.Repeat("n", 64) + `"}`,
		`{"name":"a","namespace":"n","generation":-1}`, `{"name":"a","namespace":"n","labels":{"-a":"b"}}`,
		`{"name":"a","namespace":"n","labels":{"a":"b "}}`, `{"name":"a","namespace":"n","labels":{"a":"-"}}`,
		`{"name":"a","namespace":"n","labels":{"a":1}}`, `{"name":"a","namespace":"n","labels":[]}`,
		`{"name":"a","namespace":"n","labels":{"a/b/c":""}}`, `{"name":"a","namespace":"n","labels":{"/c":""}}`,
		`{"name":"a","namespace":"n","labels":{"a..b/c":""}}`, `{"name":"a","namespace":"n","labels":{"A/c":""}}`,
		`{"name":"a","namespace":"n","annotations":{"":""}}`, `{"name":"a","namespace":"n","annotations":{"a/":""}}`,
		`{"name":"a","namespace":"n","annotations":{"a":"` + strings.Repeat("x", 256<<10) + `"}}`,
		`{"name":"a","namespace":"n","managedFields":{}}`, `{"name":"a","namespace":"n","managedFields":[1]}`,
		`{"name":"a","namespace":"n","managedFields":[{"manager":"m","operation":"Other","fieldsType":"FieldsV1"}]}`,
		`{"name":"a","namespace":"n","managedFields":[{"manager":"` + strings.Repeat("m",
			129) + `","operation":"Apply","fieldsType":"FieldsV1"}]}`,
		`{"name":"a","namespace":"n","managedFields":[{"manager":"m","operation":"Apply","fieldsType":"FieldsV2"}]}`,
		`{"name":"a","namespace":"n","finalizers":["x"]}`, `{"name":"a","namespace":"n","ownerReferences":[]}`,
	} {
		if check(t, decode(text), nil, true) {
			t.Errorf("%.100s is called valid", text)
		}
	}
}

func TestUpdatesAreRecognized(t *testing.T) {
	old := decode(ordinary)
	for change, want := range map[string]bool{
		`{"resourceVersion":"7"}`:                true,
		`{"resourceVersion":"7","generation":2}`: true,
		`{"resourceVersion":"7","labels":{}}`:    true,
		`{}`:                                     false,
		`{"resourceVersion":"7","generation":0}`: false,
		`{"resourceVersion":"7","uid":"v"}`:      false,
		`{"resourceVersion":"7","name":"b"}`:     false,
		`{"resourceVersion":"7","creationTimestamp":"2027-01-01T00:00:00Z"}`: false,
	} {
		meta := decode(ordinary)
		maps.Copy(meta, decode(change))
		check(t, meta, old, true)
		if got := metadata.Valid(meta, true) && metadata.ValidUpdate(meta, old); got != want {
			t.Errorf("update with %s: %t", change, got)
		}
	}
}

func FuzzValid(f *testing.F) {
	f.Add([]byte(ordinary), []byte(`{"name":"a","namespace":"ns-1"}`), true)
	f.Add([]byte(`{"name":"a","resourceVersion":"1","labels":{"x.y/z":"Z"}}`), []byte(`{"name":"a"}`), false)
	f.Fuzz(func(t *testing.T, meta, old []byte, namespaced bool) {
		if tree := decode(string(meta)); json.Valid(meta) && tree != nil {
			check(t, tree, decode(string(old)), namespaced)
		}
	})
}
