package load

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestObjectsHaveTheirKindSizeAndStamp(t *testing.T) {
	for _, tc := range []struct {
		name    string
		content Content
		kind    string
		path    string
		bytes   int
	}{
		{"payload", Payload, Kind, "/apis/bench.gapless.io/v1/namespaces/default/benches", 1300},
		{"structured", Structured, Kind, "/apis/bench.gapless.io/v1/namespaces/default/benches", 1000},
		{"ConfigMap", ConfigMap, "ConfigMap", "/api/v1/namespaces/default/configmaps", 1000},
		{"Pod", Pod, "Pod", "/api/v1/namespaces/default/pods", 1000},
		{"large", Large, Kind, "/apis/bench.gapless.io/v1/namespaces/default/benches", 20_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, annotated := range []bool{false, true} {
				o := Object{
					Namespace: "default", Name: "made-create-pod-16-0-001-000001", Content: tc.content, Annotated: annotated,
				}
				raw := o.append(nil, Stamp{Key: 3, Seq: 7})
				var got struct {
					Kind     string
					Metadata struct{ Annotations map[string]string }
				}
				if err := json.Unmarshal(raw, &got); err != nil {
					t.Fatalf("%v in %s", err, raw)
				}
				if got.Kind != tc.kind || o.Collection() != tc.path {
					t.Errorf("a %s in %s", got.Kind, o.Collection())
				}
				if off := len(raw) - tc.bytes; !annotated && (max(off, -off) > max(50, tc.bytes/20)) {
					t.Errorf("%d bytes instead of about %d", len(raw), tc.bytes)
				}
				if !strings.Contains(string(raw), "00003-0000000007-") {
					t.Errorf("no stamp in %s", raw)
				}
				if s, ok := parseStamp([]byte(got.Metadata.Annotations["stamp"])); ok != annotated ||
					annotated && (s.Key != 3 || s.Seq != 7) {
					t.Errorf("annotated: %t, but %+v", annotated, s)
				}
			}
		})
	}
}

func TestStructuredContentHasAValueForEveryPropertyOfTheSchema(t *testing.T) {
	properties := schemaProperties(t)
	if len(properties) != 12 {
		t.Errorf("%d properties", len(properties))
	}
	spec := specOf(t, Object{Content: Structured}, 0)
	for name := range properties {
		if _, ok := spec[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}

// Only the list of containers is in both: each has one of them.
func TestThePartsOfUserAndControllerAreTheStructuredContent(t *testing.T) {
	user, controller := specOf(t, Object{Content: UserPart}, 0), specOf(t, Object{Content: ControllerPart}, 0)
	for name := range schemaProperties(t) {
		_, first := user[name]
		_, second := controller[name]
		if first == second && name != "containers" || len(user) < 5 || len(controller) < 5 {
			t.Errorf("%s: of the user %t, of the controller %t", name, first, second)
		}
	}
}

func TestOnlyTheStampOfALargeObjectChanges(t *testing.T) {
	before, after := specOf(t, Object{Content: Large}, 1), specOf(t, Object{Content: Large}, 2)
	if before["stamp"] == after["stamp"] {
		t.Error("the stamp is the same")
	}
	delete(before, "stamp")
	delete(after, "stamp")
	if !reflect.DeepEqual(before, after) {
		t.Errorf("more than the stamp changes: %v and %v", before, after)
	}
}

// specOf returns the spec of an object after a number of writes.
func specOf(t *testing.T, o Object, seq int64) map[string]any {
	t.Helper()
	var object struct{ Spec map[string]any }
	if err := json.Unmarshal(o.append(nil, Stamp{Key: 3, Seq: seq}), &object); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return object.Spec
}

func schemaProperties(t *testing.T) map[string]any {
	t.Helper()
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct {
						Properties map[string]struct{ Properties map[string]any }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(Definition), &definition); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
}
