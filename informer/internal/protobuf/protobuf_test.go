package protobuf_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gapless-io/gapless/informer/internal/protobuf"
	"github.com/gapless-io/gapless/kube"
)

func TestAllBuiltInKindsAreSupported(t *testing.T) {
	n := 0
	for kind, object := range scheme.Scheme.AllKnownTypes() {
		meta, has := object.FieldByName("ObjectMeta")
		if !has || !meta.Anonymous {
			continue // lists, options, a Status: nothing that is listed
		}
		n++
		if !protobuf.Fits(reflect.PointerTo(object)) {
			t.Errorf("%s does not fit", kind)
		}
	}
	if n < 100 {
		t.Errorf("there are %d kinds", n)
	}
	if !protobuf.Fits(reflect.TypeFor[*metav1.PartialObjectMetadata]()) {
		t.Error("PartialObjectMetadata does not fit")
	}
}

// The types of users that look as if they fitted: promoted methods decode a part of
// the object only.
type (
	onlyMeta struct {
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

		Spec struct{} `json:"spec"`
	}
	bothMetas struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

		Spec struct{} `json:"spec"`
	}
	around struct {
		corev1.Pod

		More string `json:"more"`
	}
	withMore struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
		corev1.PodSpec    `json:"spec"`
	}
	hidden struct {
		metav1.TypeMeta `json:",inline"`
		deeper
	}
	deeper struct {
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	}
)

func TestTypesThatEmbedABuiltInKindAreNotSupported(t *testing.T) {
	for _, no := range []reflect.Type{
		reflect.TypeFor[*onlyMeta](), reflect.TypeFor[*bothMetas](), reflect.TypeFor[*around](), reflect.TypeFor[*withMore](),
		reflect.TypeFor[*hidden](),
		reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*corev1.PodList](), reflect.TypeFor[*metav1.ObjectMeta](),
		reflect.TypeFor[corev1.Pod](), reflect.TypeFor[**corev1.Pod](), reflect.TypeFor[int](), reflect.TypeFor[metav1.Object](),
	} {
		if protobuf.Fits(no) {
			t.Errorf("%s fits", no)
		}
	}
	if protobuf.New[*onlyMeta]() != nil || protobuf.New[*corev1.Pod]() == nil {
		t.Error("New does not ask Fits")
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "prod", ResourceVersion: "7", Labels: map[string]string{"app": "web"},
			Finalizers:    []string{"a", "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}, {Manager: "n"}},
		},
		Spec:   corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// inEnvelope is a pod as a watch brings it.
func inEnvelope(tb testing.TB, p *corev1.Pod) []byte {
	tb.Helper()
	raw, err := p.Marshal()
	if err != nil {
		tb.Fatalf("encode: %v", err)
	}
	u := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: p.Kind, APIVersion: p.APIVersion}, Raw: raw}
	around, err := u.Marshal()
	if err != nil {
		tb.Fatalf("encode: %v", err)
	}
	return append([]byte("k8s\x00"), around...)
}

func TestDecodedObjectsAreEqualAndDoNotAliasTheInput(t *testing.T) {
	d := protobuf.New[*corev1.Pod]()
	raw := inEnvelope(t, pod())
	a, err := d.Decode(raw)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	b, err := d.Decode(raw)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	copy(raw, bytes.Repeat([]byte("#"), len(raw)))
	for _, got := range []*corev1.Pod{a, b} {
		if diff := cmp.Diff(pod(), got); diff != "" {
			t.Error(diff)
		}
	}
	if unsafe.StringData(a.Kind) != unsafe.StringData(b.Kind) ||
		unsafe.StringData(a.APIVersion) != unsafe.StringData(b.APIVersion) {
		t.Error("each object has a kind of its own")
	}
	item := pod()
	item.TypeMeta = metav1.TypeMeta{}
	if got, err := d.Decode(inEnvelope(t, item)); err != nil || !cmp.Equal(item, got) {
		t.Errorf("an object without kind: %v, %v", got, err)
	}
}

func TestManagedFieldsAreDropped(t *testing.T) {
	d := protobuf.New[*corev1.Pod]()
	d.StripManagedFields()
	got, err := d.Decode(inEnvelope(t, pod()))
	want := pod()
	want.ManagedFields = nil
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestInvalidInputIsADecodeError(t *testing.T) {
	d, stripping := protobuf.New[*corev1.Pod](), protobuf.New[*corev1.Pod]()
	stripping.StripManagedFields()
	for name, raw := range map[string][]byte{
		"nothing": nil, "JSON": []byte(`{}`), "no envelope": []byte("k8s\x00\xff"), "an empty envelope": []byte("k8s\x00"),
		"another message": []byte("k8s\x00\x12\x02\x08\x01"), "cut metadata": []byte("k8s\x00\x12\x02\x0a\x05"),
	} {
		for _, d := range []*protobuf.Decoder[*corev1.Pod]{d, stripping} {
			if got, err := d.Decode(raw); kube.Classify(err) != kube.OutcomeDecode || got != nil {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		}
	}
}

// FuzzDecode: no input panics, and what decodes is what the type's own decoder makes
// of the message that apimachinery finds in the envelope.
func FuzzDecode(f *testing.F) {
	f.Add(inEnvelope(f, pod()))
	f.Add([]byte("k8s\x00\x12\x00"))
	f.Add([]byte("k8s\x00\x12\x04\x0a\x02\x0a\x00"))
	d, stripping := protobuf.New[*corev1.Pod](), protobuf.New[*corev1.Pod]()
	stripping.StripManagedFields()
	f.Fuzz(func(t *testing.T, input []byte) {
		got, err := d.Decode(input)
		stripped, stripErr := stripping.Decode(input)
		if err != nil {
			if _, is := errors.AsType[*kube.DecodeError](err); !is {
				t.Fatal(err)
			}
			return
		}
		var u runtime.Unknown
		var want corev1.Pod
		if err := errors.Join(u.Unmarshal(input[4:]), want.Unmarshal(u.Raw)); err != nil {
			return // of the envelope more is known upstream than is looked at here
		}
		if want.Kind, want.APIVersion = u.Kind, u.APIVersion; want.Kind == "" {
			want.APIVersion = ""
		}
		if !cmp.Equal(&want, got) {
			t.Fatal(cmp.Diff(&want, got))
		}
		if stripErr != nil {
			return // a group in the metadata
		}
		if want.ManagedFields = nil; !cmp.Equal(&want, stripped) {
			t.Fatal(cmp.Diff(&want, stripped))
		}
	})
}
