package protobuf_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gapless-io/gapless/client"
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
	return enveloped(tb, &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: p.Kind, APIVersion: p.APIVersion}, Raw: raw})
}

// enveloped is what is sent of an envelope.
func enveloped(tb testing.TB, u *runtime.Unknown) []byte {
	tb.Helper()
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
// of the message that apimachinery finds in the envelope; also with shared values, and
// whatever kind the message is taken for.
func FuzzDecode(f *testing.F) {
	f.Add(inEnvelope(f, pod()))
	f.Add([]byte("k8s\x00\x12\x00"))
	f.Add([]byte("k8s\x00\x12\x04\x0a\x02\x0a\x00"))
	for _, m := range []message{
		&corev1.Secret{Data: map[string][]byte{"a": []byte("some data"), "": nil}},
		&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}}}},
		&authenticationv1.TokenReview{Status: authenticationv1.TokenReviewStatus{
			User: authenticationv1.UserInfo{Extra: map[string]authenticationv1.ExtraValue{"key": {"a", "b"}}},
		}},
	} {
		raw, err := m.Marshal()
		if err != nil {
			f.Fatalf("encode: %v", err)
		}
		f.Add(enveloped(f, &runtime.Unknown{Raw: raw}))
	}
	plain, stripping, shared := protobuf.New[*corev1.Pod](), protobuf.New[*corev1.Pod](), protobuf.New[*corev1.Pod]()
	stripping.StripManagedFields()
	stripping.Share()
	shared.Share()
	secrets, services, reviews := protobuf.New[*corev1.Secret](), protobuf.New[*corev1.Service](),
		protobuf.New[*authenticationv1.TokenReview]()
	secrets.Share()
	services.Share()
	reviews.Share()
	f.Fuzz(func(t *testing.T, input []byte) {
		unmanaged := func(p *corev1.Pod) { p.ManagedFields = nil }
		for range 3 {
			same(t, input, plain.Decode, &corev1.Pod{}, nil)
			same(t, input, shared.Decode, &corev1.Pod{}, nil)
			same(t, input, stripping.Decode, &corev1.Pod{}, unmanaged)
			same(t, input, secrets.Decode, &corev1.Secret{}, nil)
			same(t, input, services.Decode, &corev1.Service{}, nil)
			same(t, input, reviews.Decode, &authenticationv1.TokenReview{}, nil)
		}
	})
}

// same compares what decode makes of input with what Unmarshal does, which want has, and
// alter then.
func same[T interface {
	message
	GetObjectKind() schema.ObjectKind
}](t *testing.T, input []byte, decode func([]byte) (T, error), want T, alter func(T)) {
	t.Helper()
	lent := bytes.Clone(input)
	got, err := decode(lent)
	clear(lent)
	if err != nil {
		if _, is := errors.AsType[*kube.DecodeError](err); !is {
			t.Fatal(err)
		}
	}
	var u runtime.Unknown
	if len(input) < 4 || u.Unmarshal(input[4:]) != nil {
		return // of the envelope more is known upstream than is looked at here
	}
	wantErr := want.Unmarshal(u.Raw)
	if err != nil || wantErr != nil {
		if _, envelope := client.OpenEnvelope(input); alter == nil && envelope == nil && (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		return // what strips managed fields finds more errors: a group in the metadata
	}
	if kind, is := want.GetObjectKind().(*metav1.TypeMeta); is && u.Kind != "" {
		*kind = metav1.TypeMeta{Kind: u.Kind, APIVersion: u.APIVersion}
	}
	if alter != nil {
		alter(want)
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatal(cmp.Diff(want, got))
	}
}
