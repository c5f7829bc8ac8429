package load

import (
	"encoding/json"
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
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, annotated := range []bool{false, true} {
				o := Object{Namespace: "default", Name: "made-create-pod-16-0-001-000001", Content: tc.content, Annotated: annotated}
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
				if off := len(raw) - tc.bytes; !annotated && (off > 50 || off < -50) {
					t.Errorf("%d bytes instead of about %d", len(raw), tc.bytes)
				}
				if !strings.Contains(string(raw), "00003-0000000007-") {
					t.Errorf("no stamp in %s", raw)
				}
				if s, ok := parseStamp([]byte(got.Metadata.Annotations["stamp"])); ok != annotated || annotated && (s.Key != 3 || s.Seq != 7) {
					t.Errorf("annotated: %t, but %+v", annotated, s)
				}
			}
		})
	}
}

func TestStructuredContentHasAValueForEveryPropertyOfTheSchema(t *testing.T) {
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
		t.Fatal(err)
	}
	var object struct{ Spec map[string]any }
	if err := json.Unmarshal(Object{Content: Structured}.append(nil, Stamp{}), &object); err != nil {
		t.Fatal(err)
	}
	properties := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
	if len(properties) != 12 {
		t.Errorf("%d properties", len(properties))
	}
	for name := range properties {
		if _, ok := object.Spec[name]; !ok {
			t.Errorf("no %s", name)
		}
	}
}
