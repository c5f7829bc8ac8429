package protobuf_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/gapless-io/gapless/internal/apiserver/protobuf"
)

// sizes are around the places where a length needs another byte.
func sizes() []int { return []int{0, 1, 70, 90, 127, 128, 300, 16_300, 16_383, 16_384, 2_097_200} }

func configMap(size int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "7"},
		Data:       map[string]string{"x": strings.Repeat("y", size)},
	}
}

func marshal(t testing.TB, o interface{ Marshal() ([]byte, error) }) []byte {
	t.Helper()
	b, err := o.Marshal()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

// encode is upstream's answer.
func encode(t *testing.T, o runtime.Object) []byte {
	t.Helper()
	var to bytes.Buffer
	if err := upstream.NewSerializer(nil, nil).Encode(o, &to); err != nil {
		t.Fatalf("encode make a serializer: %v", err)
	}
	return to.Bytes()
}

func TestObjectsAreEncodedAsUpstream(t *testing.T) {
	for _, size := range sizes() {
		o := configMap(size)
		if got, want := protobuf.Object(o.TypeMeta, marshal(t, o)), encode(t, o); !bytes.Equal(got, want) ||
			cap(got) != len(got) {
			t.Errorf("%d bytes: %.200q with capacity %d, want %.200q", size, got, cap(got), want)
		}
	}
	s := &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: 410, Reason: "Expired",
		Details: &metav1.StatusDetails{},
	}
	if got, want := protobuf.Object(s.TypeMeta, marshal(t, s)), encode(t, s); !bytes.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestListsAreEncodedAsUpstream(t *testing.T) {
	for _, size := range sizes() {
		remaining := int64(12)
		l := &corev1.ConfigMapList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMapList"},
			ListMeta: metav1.ListMeta{
				ResourceVersion: "9", Continue: strings.Repeat("c", min(size, 500)), RemainingItemCount: &remaining,
			},
			Items: []corev1.ConfigMap{*configMap(size), *configMap(3)},
		}
		var items []byte
		for i := range l.Items {
			items = protobuf.AppendItem(items, marshal(t, &l.Items[i]))
		}
		got := append(protobuf.List(l.TypeMeta, marshal(t, &l.ListMeta), len(items)), items...)
		if got, want := append(got, protobuf.Tail()...), encode(t, l); !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %.200q, want %.200q", size, got, want)
		}
	}
}

func TestFramesAreEncodedAsUpstream(t *testing.T) {
	for _, size := range sizes() {
		o := configMap(size)
		message := marshal(t, o)
		head := protobuf.Frame([]byte("before"), "MODIFIED", o.TypeMeta, len(message))
		got := append(append(bytes.TrimPrefix(head, []byte("before")), message...), protobuf.Tail()...)

		var event, want bytes.Buffer
		e := &metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: encode(t, o)}}
		if err := upstream.NewRawSerializer(nil, nil).Encode(e, &event); err != nil {
			t.Fatalf("encode make a raw serializer: %v", err)
		}
		if _, err := upstream.LengthDelimitedFramer.NewFrameWriter(&want).Write(event.Bytes()); err != nil {
			t.Fatalf("write make a frame writer: %v", err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%d bytes: %.200q, want %.200q", size, got, want.Bytes())
		}
		if !bytes.Equal(protobuf.Unframed(got), event.Bytes()) {
			t.Errorf("%d bytes: %.200q without its length", size, protobuf.Unframed(got))
		}
	}
}
