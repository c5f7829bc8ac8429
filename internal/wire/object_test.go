package wire_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
)

// podFields are selectable fields as a resource declares them.
func podFields() []wire.FieldPath {
	return []wire.FieldPath{
		{Label: "spec.nodeName", Path: []string{"spec", "nodeName"}},
		{Label: "spec.restartPolicy", Path: []string{"spec", "restartPolicy"}, Default: "Always"},
		{Label: "spec.hostNetwork", Path: []string{"spec", "hostNetwork"}, Default: "false"},
		{Label: "status.phase", Path: []string{"status", "phase"}},
		{Label: "involvedObject.uid", Path: []string{"involvedObject", "uid"}},
		{Label: "type", Path: []string{"type"}},
		{Label: "metadata.generation", Path: []string{"metadata", "generation"}},
	}
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ns","uid":"u-1","generation":7,` +
	`"creationTimestamp":"2026-11-20T10:00:00Z","labels":{"app":"web","tier":"ä\u00e4\n"}},` +
	`"spec":{"nodeName":"n1","hostNetwork":true,"containers":[{"name":"c","args":["}","\"",{"x":[1.5e-3,null,false]}]}]},` +
	`"status":{"phase":"Running"},"type":"Opaque"}`

func newObject(t *testing.T, value string, rv kube.ResourceVersion) *wire.Object {
	t.Helper()
	o, err := wire.NewObject([]byte(value), rv, podFields())
	if err != nil {
		t.Fatalf("NewObject(%s): %v", value, err)
	}
	return o
}

func parseObject(t *testing.T, raw string) *wire.Object {
	t.Helper()
	o, err := wire.ParseObject([]byte(raw), podFields())
	if err != nil {
		t.Fatalf("ParseObject(%s): %v", raw, err)
	}
	return o
}

func TestObjectReadsTypeMetadataAndSelectableFields(t *testing.T) {
	o := newObject(t, pod, 1000000042)
	if got, want := o.Key(), (wire.Key{Namespace: "ns", Name: "p"}); got != want {
		t.Errorf("Key() = %v, want %v", got, want)
	}
	if o.UID() != "u-1" || o.Generation() != 7 || o.APIVersion() != "v1" || o.Kind() != "Pod" || o.Deleting() {
		t.Errorf("uid %q generation %d apiVersion %q kind %q deleting %v",
			o.UID(), o.Generation(), o.APIVersion(), o.Kind(), o.Deleting())
	}
	if want := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC); !o.Created().Equal(want) {
		t.Errorf("Created() = %v, want %v", o.Created(), want)
	}
	if diff := cmp.Diff(labels.Set{"app": "web", "tier": "ää\n"}, o.Labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.generation": "7", "spec.nodeName": "n1",
		"spec.restartPolicy": "Always", "spec.hostNetwork": "true", "status.phase": "Running", "involvedObject.uid": "",
		"type": "Opaque",
	}
	for label, value := range want {
		if got := o.Fields().Get(label); got != value || !o.Fields().Has(label) {
			t.Errorf("field %s = %q (has: %v), want %q", label, got, o.Fields().Has(label), value)
		}
	}
	if o.Fields().Has("spec.containers") || o.Fields().Get("spec.containers") != "" {
		t.Error("a field that was not declared can be selected by")
	}
	if sel := fields.ParseSelectorOrDie("spec.nodeName=n1,status.phase!=Failed,metadata.name=p"); !sel.Matches(o.Fields()) {
		t.Errorf("%v does not match", sel)
	}
	if o.ResourceVersion() != 1000000042 {
		t.Errorf("ResourceVersion() = %d", o.ResourceVersion())
	}
}

func TestObjectWithDeletionTimestampIsDeleting(t *testing.T) {
	if !newObject(t, `{"metadata":{"deletionTimestamp":"2026-11-20T10:00:00Z"}}`, 1).Deleting() {
		t.Error("an object with a deletionTimestamp is not deleting")
	}
	if newObject(t, `{"metadata":{"deletionTimestamp":null}}`, 1).Deleting() {
		t.Error("an object whose deletionTimestamp is null is deleting")
	}
}

func TestStampedBytes(t *testing.T) {
	for name, tt := range map[string]struct{ value, want string }{
		"first in metadata": {
			`{"kind":"A","metadata":{"name":"x"}}`, `{"kind":"A","metadata":{"resourceVersion":"12","name":"x"}}`,
		},
		"empty metadata": {`{"metadata":{}}`, `{"metadata":{"resourceVersion":"12"}}`},
		"spaces":         {` { "metadata" : { } , "a" : 1 } `, `{ "metadata" : {"resourceVersion":"12" } , "a" : 1 }`},
		"several lines":  {"{\n\"metadata\": {\r\n\"name\": \"x\"}}\n", `{"metadata":{"resourceVersion":"12","name":"x"}}`},
		"a stale one": {
			`{"metadata":{"name":"x","resourceVersion":"7"}}`, `{"metadata":{"name":"x","resourceVersion":"12"}}`,
		},
		"an empty one": {
			`{"metadata":{"resourceVersion":"","name":"x"}}`, `{"metadata":{"resourceVersion":"12","name":"x"}}`,
		},
		"null": {
			`{"metadata":{"resourceVersion":null,"name":"x"}}`, `{"metadata":{"resourceVersion":"12","name":"x"}}`,
		},
		"two": {
			`{"metadata":{"resourceVersion":"1","name":"x","resourceVersion":"2"}}`,
			`{"metadata":{"name":"x","resourceVersion":"12"}}`,
		},
		"two metadata": {
			`{"metadata":{"name":"a","labels":{"a":"b"}},"metadata":{"name":"x"}}`,
			`{"metadata":{"resourceVersion":"12","name":"x"}}`,
		},
		"an escaped name": {`{"meta\u0064ata":{"name":"x"}}`, `{"meta\u0064ata":{"resourceVersion":"12","name":"x"}}`},
		"an inner metadata": {
			`{"spec":{"metadata":{}},"metadata":{"a":{"resourceVersion":"3"}}}`,
			`{"spec":{"metadata":{}},"metadata":{"resourceVersion":"12","a":{"resourceVersion":"3"}}}`,
		},
		"nothing but the rv": {`{"metadata":{"resourceVersion":"100"}}`, `{"metadata":{"resourceVersion":"12"}}`},
		"an escaped number":  {`{"metadata":{"resourceVersion":"\u0031"}}`, `{"metadata":{"resourceVersion":"12"}}`},
		"metadata, then null": {
			`{"metadata":{"name":"a"},"metadata":{"resourceVersion":null}}`, `{"metadata":{"resourceVersion":"12"}}`,
		},
		"apiVersion, it twice": {
			`{"apiVersion":"a","metadata":{},"apiVersion":"b"}`, `{"apiVersion":"b","metadata":{"resourceVersion":"12"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObject(t, tt.value, 12)
			// A rewritten object may have its resourceVersion elsewhere.
			var got, want any
			if err := json.Unmarshal(o.JSON(), &got); err != nil {
				t.Fatalf("%s: %v", o.JSON(), err)
			}
			if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatalf("decode JSON: %v", err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", o.JSON(), diff)
			}
			if len(o.JSON()) != len(tt.want) {
				t.Errorf("got %s, want %s", o.JSON(), tt.want)
			}
			if strings.Count(string(o.Value()), `"12"`) != 0 {
				t.Errorf("Value() = %s keeps the resourceVersion", o.Value())
			}
			again := newObject(t, string(o.Value()), 12)
			if diff := cmp.Diff(o.Value(), again.Value()); diff != "" {
				t.Errorf("the stored form of the stored form differs (-first +second):\n%s", diff)
			}
		})
	}
}

func TestStoredFormRoundTrips(t *testing.T) {
	for _, value := range []string{pod, `{"metadata":{}}`, `{"kind":"A","metadata":{"name":"x"},"z":[]}`} {
		if got := string(newObject(t, value, 99).Value()); got != value {
			t.Errorf("Value() = %s, want %s", got, value)
		}
	}
}

func TestRestampingFollowsEveryChangeOfLength(t *testing.T) {
	o := newObject(t, pod, 9)
	for _, rv := range []kube.ResourceVersion{10, 999, 1000000000, 18446744073709551615, 0, 7} {
		before := string(o.JSON())
		next := o.WithResourceVersion(rv)
		if got := parseObject(t, string(next.JSON())).ResourceVersion(); got != rv || next.ResourceVersion() != rv {
			t.Fatalf("rv in the bytes %d, in the object %d, want %d", got, next.ResourceVersion(), rv)
		}
		if string(next.Value()) != pod {
			t.Fatalf("Value() at %d = %s", rv, next.Value())
		}
		if string(o.JSON()) != before {
			t.Fatal("restamping changed the object that it was called on")
		}
		o = next
	}
}

func TestObjectWithoutMetadata(t *testing.T) {
	o := parseObject(t, `{"kind":"Status","code":410}`)
	if got := string(o.WithResourceVersion(5).JSON()); got != `{"kind":"Status","code":410}` {
		t.Errorf("restamped: %s", got)
	}
	if o.Kind() != "Status" || o.ResourceVersion() != 0 || o.Labels() != nil {
		t.Errorf("kind %q rv %d labels %v", o.Kind(), o.ResourceVersion(), o.Labels())
	}
	for _, value := range []string{`{}`, `{"metadata":null}`} {
		if _, err := wire.NewObject([]byte(value), 1, nil); err == nil {
			t.Errorf("NewObject(%s) did not complain", value)
		}
	}
}

func TestWithAPIVersionReplacesTheVersion(t *testing.T) {
	for name, tt := range map[string]struct{ raw, want string }{
		"first": {
			`{"apiVersion":"a/v1","metadata":{"resourceVersion":"5"}}`,
			`{"apiVersion":"a/v1beta1","metadata":{"resourceVersion":"5"}}`,
		},
		"last": {
			`{"metadata":{"resourceVersion":"5"},"apiVersion":"a/v1"}`,
			`{"metadata":{"resourceVersion":"5"},"apiVersion":"a/v1beta1"}`,
		},
		"empty": {
			`{"apiVersion":"","metadata":{"resourceVersion":"5"}}`,
			`{"apiVersion":"a/v1beta1","metadata":{"resourceVersion":"5"}}`,
		},
		"escaped": {
			`{"apiVersion":"a\/v1","metadata":{"resourceVersion":"5"}}`,
			`{"apiVersion":"a/v1beta1","metadata":{"resourceVersion":"5"}}`,
		},
		"absent": {`{"metadata":{"resourceVersion":"5"}}`, `{"apiVersion":"a/v1beta1","metadata":{"resourceVersion":"5"}}`},
		"null": {
			`{"apiVersion":null,"metadata":{"resourceVersion":"5"}}`,
			`{"apiVersion":"a/v1beta1","metadata":{"resourceVersion":"5"}}`,
		},
		"no object": {`{}`, `{"apiVersion":"a/v1beta1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			o := parseObject(t, tt.raw)
			other := o.WithAPIVersion("a/v1beta1")
			if string(other.JSON()) != tt.want || other.APIVersion() != "a/v1beta1" {
				t.Errorf("got %s (%s), want %s", other.JSON(), other.APIVersion(), tt.want)
			}
			if back := other.WithAPIVersion("a/v1"); parseObject(t, string(back.JSON())).APIVersion() != "a/v1" {
				t.Errorf("back: %s", back.JSON())
			}
			if o.ResourceVersion() == 0 {
				return
			}
			restamped := parseObject(t, string(other.WithResourceVersion(123456).JSON()))
			if restamped.ResourceVersion() != 123456 || restamped.APIVersion() != "a/v1beta1" {
				t.Errorf("restamped: %s", restamped.JSON())
			}
		})
	}
}

func TestLastOfDuplicateMembersCounts(t *testing.T) {
	o := parseObject(t, `{"spec":{"nodeName":"a","nodeName":"b","restartPolicy":"Never"},"spec":{"hostNetwork":1},`+
		`"metadata":{"name":"a","name":"b","labels":{"x":"1"},"labels":{"y":"1","y":"2"}},"status":{"phase":{"no":"scalar"}}}`)
	if o.Fields().Get("spec.nodeName") != "" || o.Fields().Get("spec.restartPolicy") != "Always" ||
		o.Fields().Get("spec.hostNetwork") != "1" {
		t.Errorf("fields of a replaced object are still there: %v", o.Fields().Get("spec.nodeName"))
	}
	if o.Fields().Get("status.phase") != "" {
		t.Errorf("an object is a field's value: %q", o.Fields().Get("status.phase"))
	}
	if o.Key().Name != "b" {
		t.Errorf("name = %q", o.Key().Name)
	}
	if diff := cmp.Diff(labels.Set{"y": "2"}, o.Labels()); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestMalformedObjectsAreDecodeErrors(t *testing.T) {
	for _, raw := range []string{
		``, ` `, `null`, `[]`, `"x"`, `1`, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{"a":1}}`,
		`{} {}`, `{"a" 1}`,
		`{a:1}`, `{'a':1}`, `{"a":01}`, `{"a":-}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":+1}`, `{"a":tru}`,
		`{"a":nul}`, `{"a":NaN}`,
		"{\"a\":\"\x01\"}", "{\"a\":\"\n\"}", `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"\u12g4"}`, `{"a":"\`, `{"a":[1,]}`,
		`{"a":[1 2]}`, `{"a":[}`, `{"a":{]}`,
		"\xef\xbb\xbf{}", `{"metadata":[]}`, `{"metadata":"x"}`, `{"metadata":{"name":1}}`, `{"metadata":{"labels":[]}}`,
		`{"metadata":{"labels":{"a":1}}}`,
		`{"metadata":{"resourceVersion":5}}`, `{"metadata":{"resourceVersion":"x"}}`, `{"metadata":{"resourceVersion":"-1"}}`,
		`{"metadata":{"resourceVersion":"18446744073709551616"}}`, `{"metadata":{"resourceVersion":"\u000a"}}`,
		`{"metadata":{"generation":"1"}}`,
		`{"metadata":{"generation":1.5}}`, `{"metadata":{"creationTimestamp":"yesterday"}}`, `{"apiVersion":1}`, `{"kind":{}}`,
		`{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`,
		strings.Repeat(`{"a":`, 200000),
	} {
		_, err := wire.ParseObject([]byte(raw), podFields())
		if _, is := errors.AsType[*kube.DecodeError](err); !is {
			t.Errorf("ParseObject(%.60s) = %v, want a DecodeError", raw, err)
		}
	}
}

func TestNestingLimitMatchesEncodingJSON(t *testing.T) {
	deep := `{"metadata":{},"a":` + strings.Repeat("[", 9999) + strings.Repeat("]", 9999) + `}`
	if !json.Valid([]byte(deep)) {
		t.Fatal("encoding/json refuses it")
	}
	newObject(t, deep, 1)
}

func TestObjectDoesNotKeepItsInput(t *testing.T) {
	raw := []byte(`{"metadata":{"name":"before","resourceVersion":"5"}}`)
	o, err := wire.ParseObject(raw, nil)
	if err != nil {
		t.Fatalf("parse the object: %v", err)
	}
	copy(raw, strings.Repeat(" ", len(raw)))
	if o.Key().Name != "before" || !strings.Contains(string(o.JSON()), "before") {
		t.Errorf("the object changed with its input: %s", o.JSON())
	}
}

func TestTooManySelectableFieldsAreAnError(t *testing.T) {
	paths := make([]wire.FieldPath, 65)
	for i := range paths {
		paths[i] = wire.FieldPath{Label: "spec.a", Path: []string{"spec", "a"}}
	}
	if _, err := wire.ParseObject([]byte(`{}`), paths); err == nil {
		t.Error("65 selectable fields were taken")
	}
	o, err := wire.ParseObject([]byte(`{"spec":{"a":"x"}}`), paths[:64])
	if err != nil || o.Fields().Get("spec.a") != "x" {
		t.Errorf("64 selectable fields: %v", err)
	}
}

func TestUntypedOmitsAPIVersionAndKind(t *testing.T) {
	for raw, want := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"kind":"x"}}`: `{"metadata":{"name":"a"},` +
			`"data":{"kind":"x"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap"}`:                         `{}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`: `{"metadata":{"name":"a"}}`,
		`{"metadata":{"name":"a"},"kind":"ConfigMap"}`:                   `{"metadata":{"name":"a"}}`,
		`{"apiVersion":"v1", "kind":"ConfigMap", "data":{"a":[1,2]}}`:    `{"data":{"a":[1,2]}}`,
		`{"apiVersion":"v1","kind":"A\u0042","data":{}}`:                 `{"data":{}}`,
		`{"kind":"ConfigMap","apiVersion":"v1"}`:                         `{}`,
		`{"kind":"A\u0042","apiVersion":"v1","data":{}}`:                 `{"data":{}}`,
		`{"kind":"B","kind":"ConfigMap","apiVersion":"v1","data":{}}`:    `{"data":{}}`,
		`{"spec":{"kind":"x"},"kind":"A","z":1,"apiVersion":"v1","a":[{"apiVersion":"b"}]}`: `{"spec":{"kind":"x"},"z":1,` +
			`"a":[{"apiVersion":"b"}]}`,
		`{ "kind" : "A" , "z" : 1 }`: `{"z" : 1}`,
		`{"metadata":{"name":"a"}}`:  `{"metadata":{"name":"a"}}`,
		`{}`:                         `{}`,
	} {
		o, err := wire.ParseObject([]byte(raw), nil)
		if err != nil {
			t.Fatalf("parse the object: %v", err)
		}
		for _, o := range []*wire.Object{o, o.WithAPIVersion("apps/v1beta1")} {
			if got := "{" + string(o.Untyped()); got != want {
				t.Errorf("%s: %s, want %s", o.JSON(), got, want)
			}
		}
	}
}

func TestContentIsWhatFollowsTheMetadata(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},` +
			`"spec":{"a":1},"z":[]}`: `,"spec":{"a":1},"z":[]}`,
		`{"apiVersion":"v1","kind":"A",` +
			`"metadata":{"name":"a"}}`: `}`,
		`{"apiVersion":"v1","kind":"A","metadata":{"managedFields":[{"manager":"` + strings.Repeat("x",
			200) + `"}]},"spec":2}`: `,"spec":2}`,
		`{"apiVersion":"v1","kind":"A","spec":1,` +
			`"metadata":{"name":"a"}}`: ``,
		`{"kind":"A","apiVersion":"v1",` +
			`"metadata":{"name":"a"},"spec":1}`: `,"spec":1}`,
	} {
		o, err := wire.NewObject([]byte(text), 7, nil)
		if err != nil {
			t.Fatalf("make an object: %v", err)
		}
		set := texts.New()
		o.Share(set)
		for form, o := range map[string]*wire.Object{
			"stored": o, "shared": o.Share(set), "at another version": o.WithResourceVersion(123456),
			"in another version": o.WithAPIVersion("long.example.com/v2"),
			"without managers":   o.WithoutManagedFields(),
		} {
			if got := string(o.Content()); got != want {
				t.Errorf("%s, %s: %q, want %q", text, form, got, want)
			}
		}
	}
}

func TestWithValueReplacesWhatIsNotMetadata(t *testing.T) {
	const head = `{"apiVersion":"v1","kind":"A","metadata":{"labels":{"a":"b"},"managedFields":[{"manager":"`
	manager := strings.Repeat("x", 200)
	set := texts.New()
	paths := []wire.FieldPath{{Label: "spec.a", Path: []string{"spec", "a"}}}
	var o *wire.Object
	for range 2 { // from its second occurrence on, a text is shared
		var err error
		if o, err = wire.NewSharing([]byte(head+manager+`"}],"name":"a"},"spec":{"a":"1"}}`), 7, paths, set); err != nil {
			t.Fatalf("make a sharing: %v", err)
		}
	}
	o.Remember(nil, &wire.Memo{By: t})
	other, err := o.WithValue([]byte(head + manager + `"}],"name":"a"},"spec":{"a":"2","b":"3"}}`))
	if err != nil {
		t.Fatalf("with value: %v", err)
	}
	want := `{"apiVersion":"v1","kind":"A","metadata":{"resourceVersion":"7",` + strings.TrimPrefix(head,
		`{"apiVersion":"v1","kind":"A","metadata":{`) + manager + `"}],"name":"a"},"spec":{"a":"2","b":"3"}}`
	if got := string(other.JSON()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if other.ResourceVersion() != 7 || other.Fields().Get("spec.a") != "2" || other.Labels()["a"] != "b" || other.Memo() != nil {
		t.Errorf("version %d, field %q, labels %v, memo %v",
			other.ResourceVersion(), other.Fields().Get("spec.a"), other.Labels(), other.Memo())
	}
	if got := len(other.Parts(nil)); got != len(o.Parts(nil)) || got == 1 {
		t.Errorf("it has %d parts, of %d", got, len(o.Parts(nil)))
	}
	if m := o.WithResourceVersion(8).Memo(); m != nil {
		t.Errorf("a copy remembers %v", m)
	}
}

// kube-apiserver writes the kind first, gapless the apiVersion. Objects of both are in the mirror of a
// relay, and lists of them must cost the same.
func TestUntypedOfEitherServersObjectsCopiesNothing(t *testing.T) {
	for _, raw := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"5"},"data":{"a":"x"}}`,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"},"data":{"a":"x"}}`,
	} {
		o := parseObject(t, raw)
		parts := make([][]byte, 0, 4)
		if n := testing.AllocsPerRun(100, func() { parts = o.UntypedParts(parts[:0]) }); n != 0 {
			t.Errorf("%s: %v allocations", raw, n)
		}
		if got, want := string(parts[0]), `"metadata":{"name":"a","resourceVersion":"5"},"data":{"a":"x"}}`; got != want {
			t.Errorf("%s: %s", raw, got)
		}
	}
}
