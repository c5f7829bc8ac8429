package gokind_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// message is what generated code can decode.
type message interface {
	runtime.Object
	Unmarshal(data []byte) error
}

// decodesAs fails unless a client reads the same from a message as from the JSON that it
// was made of.
func decodesAs(t *testing.T, kind reflect.Type, encode func([]byte) ([]byte, error), object []byte) {
	t.Helper()
	raw, err := encode(object)
	if err != nil {
		t.Fatalf("%s: %v", object, err)
	}
	got, _ := reflect.TypeAssert[message](reflect.New(kind))
	want, _ := reflect.TypeAssert[message](reflect.New(kind))
	if err := got.Unmarshal(raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(object, want); err != nil {
		t.Fatal(err)
	}
	same := equality.Semantic.Copy()
	// The envelope has the kind; a claim in a StatefulSet has none.
	if err := same.AddFunc(func(metav1.TypeMeta, metav1.TypeMeta) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if !same.DeepEqual(got, want) {
		t.Errorf("%s is decoded from protobuf otherwise: %s", object, cmp.Diff(want, got))
	}
	if again, err := encode(object); err != nil || !bytes.Equal(raw, again) {
		t.Errorf("%s is encoded otherwise the second time (%v)", object, err)
	}
}

func TestProtobufIsDecodedAsItsJSONIs(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		t.Run(builtintest.File(r), func(t *testing.T) {
			u := builtintest.Written(t, r, builtintest.Manifest(t, r))
			u.SetResourceVersion("7")
			u.SetUID("9c8b1a6e")
			u.SetCreationTimestamp(metav1.Unix(1_700_000_000, 0))
			u.SetGeneration(3)
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{
				Manager: "m", Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`),
			}})
			object, err := u.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			decodesAs(t, r.GoType, r.Protobuf, bytes.TrimSpace(object))
		})
	}
}

func TestProtobufKeepsAnyText(t *testing.T) {
	for _, r := range builtin.Catalog().Resources() {
		content := builtintest.Written(t, r, builtintest.Manifest(t, r)).UnstructuredContent()
		content["metadata"] = map[string]any{"name": "ä<&>\"\\", "annotations": map[string]any{"b": "\u2028\x00", "a": ""}}
		object, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		decodesAs(t, r.GoType, r.Protobuf, object)
	}
}

// What the fast way to a struct does not know is decoded the slow way.
func TestProtobufOfUnusualObjectsIsDecodedAsTheirJSONIs(t *testing.T) {
	pods := builtintest.Resource(t, "", "v1", "pods")
	revisions := builtintest.Resource(t, "apps", "v1", "controllerrevisions")
	for _, c := range []struct {
		of   *kinds.Resource
		json string
	}{
		{pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"unknown":{"x":1},"spec":{"containers":null}}`},
		{pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","name":"b"}}`},
		{
			pods,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","creationTimestamp":null},"spec":{"containers":[{"name":"c","image":"","resources":{"limits":{"cpu":"1500m","memory":"1e3"}}}]}}`,
		},
		{
			revisions,
			`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"a"},"data":{"z":[1,2.5,{"a":"\u00e4"}],"a":null},"revision":9007199254740993}`,
		},
	} {
		decodesAs(t, c.of.GoType, c.of.Protobuf, []byte(c.json))
	}
}

func TestScalesAndMetadataAreEncoded(t *testing.T) {
	decodesAs(
		t,
		reflect.TypeFor[autoscalingv1.Scale](),
		gokind.EncodeScale,
		[]byte(
			`{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d"},"spec":{"replicas":3},"status":{"replicas":0,"selector":"a=b"}}`,
		),
	)
	decodesAs(
		t,
		reflect.TypeFor[metav1.PartialObjectMetadata](),
		gokind.EncodeMetadata,
		[]byte(
			`{"metadata":{"name":"d","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}],"finalizers":["x"]}}`,
		),
	)
}

func TestWhatCannotBeEncodedIsAnError(t *testing.T) {
	r := builtintest.Resource(t, "", "v1", "pods")
	for _, body := range []string{``, `[]`, `{"spec":{"containers":"none"}}`} {
		if raw, err := r.Protobuf([]byte(body)); err == nil {
			t.Errorf("%s is encoded as %q", body, raw)
		} else if !strings.Contains(err.Error(), "Pod") {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func BenchmarkEncodeProtobufConfigMap(b *testing.B) {
	benchmarkEncode(b, builtintest.Resource(b, "", "v1", "configmaps"), configMapBody(b))
}

func BenchmarkEncodeProtobufPod(b *testing.B) {
	r := builtintest.Resource(b, "", "v1", "pods")
	benchmarkEncode(b, r, builtintest.Manifest(b, r))
}

func benchmarkEncode(b *testing.B, r *kinds.Resource, body []byte) {
	b.Helper()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Protobuf(body); err != nil {
			b.Fatal(err)
		}
	}
}

// kube-apiserver writes the members of its structs in their order, the empty ones that are not left
// out, and <, > and & as escapes. A relay's lists in protobuf are made of such objects.
func TestKubeAPIServersJSONIsReadTheFastWay(t *testing.T) {
	fast := 0
	for _, r := range builtin.Catalog().Resources() {
		u := builtintest.Written(t, r, builtintest.Manifest(t, r))
		u.SetAnnotations(map[string]string{"a": "<b> & \"c\" ä\n"})
		u.SetCreationTimestamp(metav1.Unix(1_700_000_000, 0))
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:a":{}}`),
			Time:     &metav1.Time{Time: metav1.Unix(1_700_000_000, 0).Time},
		}})
		object, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		typed := reflect.New(r.GoType).Interface()
		if err := json.Unmarshal(object, typed); err != nil {
			t.Fatal(err)
		}
		if object, err = json.Marshal(typed); err != nil { // as kube-apiserver encodes it
			t.Fatal(err)
		}
		own, err := wire.Canonical(u.UnstructuredContent())
		if err != nil {
			t.Fatal(err)
		}
		if gokind.FillsFast(r.Type, own) {
			fast++
			if !gokind.FillsFast(r.Type, object) {
				t.Errorf("%s is decoded the slow way: %s", r.GVR(), object)
			}
		}
	}
	if fast < 50 {
		t.Errorf("only %d kinds are decoded the fast way", fast)
	}
}
