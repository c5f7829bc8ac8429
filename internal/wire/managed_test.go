package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestManagedFieldsAreCutOut(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{
			"between",
			`{"kind":"A","metadata":{"resourceVersion":"7","managedFields":[{"a":"]"}],"name":"x"},"spec":{"managedFields":1}}`,
			`{"kind":"A","metadata":{"resourceVersion":"7","name":"x"},"spec":{"managedFields":1}}`,
		},
		{"first", `{"metadata":{"managedFields":[],"name":"x"}}`, `{"metadata":{"name":"x"}}`},
		{"last", `{"metadata":{"name":"x","managedFields":null}}`, `{"metadata":{"name":"x"}}`},
		{"only", `{"metadata":{"managedFields":[1]}}`, `{"metadata":{}}`},
		{"twice", `{"metadata":{"managedFields":[1],"a":1,"managedFields":[2]}}`, `{"metadata":{"a":1}}`},
		{"escaped", `{"metadata":{"a":1,"managed\u0046ields":[2]}}`, `{"metadata":{"a":1}}`},
		{"spaces", `{"metadata": { "a":1 , "managedFields" : [2] , "b":2 } }`, `{"metadata": { "a":1 , "b":2 } }`},
		{
			"none", `{"metadata":{"name":"x","labels":{"managedFields":"y"}}}`,
			`{"metadata":{"name":"x","labels":{"managedFields":"y"}}}`,
		},
		{"no metadata", `{"managedFields":[]}`, `{"managedFields":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := wire.ParseObject([]byte(c.raw), nil)
			if err != nil {
				t.Fatalf("parse the object: %v", err)
			}
			got := o.WithoutManagedFields()
			if diff := cmp.Diff(members(t, c.want), members(t, string(got.JSON()))); diff != "" {
				t.Errorf("%s: %s", got.JSON(), diff)
			}
			if string(o.JSON()) != c.raw {
				t.Errorf("the object became %s", o.JSON())
			}
			if got.Key() != o.Key() || got.ResourceVersion() != o.ResourceVersion() {
				t.Errorf("%v at %v", got.Key(), got.ResourceVersion())
			}
		})
	}
}

func members(t *testing.T, raw string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// FuzzWithoutManagedFields: what remains is what encoding/json has without the member, and
// can be changed as any object can.
func FuzzWithoutManagedFields(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"v1","kind":"A","metadata":{"managedFields":[{}],"resourceVersion":"7"}}`,
		`{"metadata":{"resourceVersion":"7","managedFields":[{}]}}`,
		`{"metadata":{"name":"x","managedFields":[{}],"resourceVersion":"7"},"spec":{}}`,
		`{"metadata":{"managedFields":[{}]}}`,
		`{"metadata":{ "a" : 1 , "managedFields" : null }}`,
		`{"kind":"A","metadata":{"managedFields":[],"name":"x"},"spec":{"metadata":{}},"apiVersion":"v1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := wire.ParseObject(raw, nil)
		if err != nil {
			return
		}
		want := members(t, string(o.JSON()))
		metadata, _ := want["metadata"].(map[string]any)
		delete(metadata, "managedFields")
		bare := o.WithoutManagedFields()
		if diff := cmp.Diff(want, members(t, string(bare.JSON()))); diff != "" {
			t.Fatalf("%s of %s: %s", bare.JSON(), raw, diff)
		}
		if len(metadata) > 0 || o.Metadata() != nil {
			if diff := cmp.Diff(metadata, members(t, string(bare.Metadata()))); diff != "" {
				t.Errorf("metadata %s of %s: %s", bare.Metadata(), raw, diff)
			}
		}
		if o.Metadata() == nil {
			return
		}
		if diff := cmp.Diff(metadata, members(t, string(bare.WithAPIVersion("example.com/v1beta1").Metadata()))); diff != "" {
			t.Errorf("metadata of %s in another version of the API: %s", raw, diff)
		}
		metadata["resourceVersion"] = "12345"
		later := bare.WithResourceVersion(12345)
		if diff := cmp.Diff(want, members(t, string(later.JSON()))); diff != "" {
			t.Errorf("%s at another version: %s", raw, diff)
		}
		if diff := cmp.Diff(metadata, members(t, string(later.Metadata()))); diff != "" {
			t.Errorf("metadata of %s at another version: %s", raw, diff)
		}
		delete(metadata, "resourceVersion")
		if diff := cmp.Diff(want, members(t, string(bare.Value()))); diff != "" {
			t.Errorf("%s as it is stored: %s", raw, diff)
		}
	})
}
