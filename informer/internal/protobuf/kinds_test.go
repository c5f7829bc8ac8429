package protobuf_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/gapless-io/gapless/informer/internal/protobuf"
	"github.com/gapless-io/gapless/kube"
)

// filler fills values with random content, in every field.
type filler struct {
	*rand.Rand

	depth int
}

// fill sets v. Few different strings and numbers make parts of objects equal.
func (f *filler) fill(v reflect.Value) {
	if f.depth++; f.depth > 14 {
		f.depth--
		return
	}
	defer func() { f.depth-- }()
	switch into := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		*into = metav1.NewTime(time.Unix(f.Int64N(1<<33)-1<<30, 0))
		return
	case *metav1.MicroTime:
		*into = metav1.NewMicroTime(time.UnixMicro(f.Int64N(1 << 53)))
		return
	case *resource.Quantity:
		*into = *resource.NewMilliQuantity(f.Int64N(1<<40), resource.DecimalSI)
		return
	}
	switch v.Kind() { //nolint:exhaustive // there are no others
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		if f.IntN(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(3), 9))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.IntN(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString([]string{"", "a", "a longer text than the others", fmt.Sprint(f.Uint32())}[f.IntN(4)])
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, f.Int64N(1 << 31)}[f.IntN(4)])
	case reflect.Uint8:
		v.SetUint(f.Uint64N(256))
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	}
}

// message is what a generated kind has.
type message interface {
	Marshal() ([]byte, error)
	Unmarshal(raw []byte) error
}

// TestAllBuiltInKindsAreDecodedAsByUnmarshal fills all fields of all kinds with random content.
// Each object is decoded several times, so that its parts are shared.
func TestAllBuiltInKindsAreDecodedAsByUnmarshal(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	kinds := 0
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		if !protobuf.Fits(reflect.PointerTo(of)) {
			continue
		}
		kinds++
		t.Run(kind.String(), func(t *testing.T) {
			decode := protobuf.Compiled(of)
			if decode == nil {
				t.Fatal("it is always left to Unmarshal")
			}
			f := &filler{Rand: rand.New(rand.NewPCG(seed, 0))}
			for range 8 {
				filled := reflect.New(of)
				f.fill(filled.Elem())
				compare(t, filled, decode)
			}
		})
	}
	if kinds < 100 {
		t.Errorf("%d kinds", kinds)
	}
}

// compare decodes an object three times, by Unmarshal and by decode.
func compare(t *testing.T, filled reflect.Value, decode func(raw []byte) (object any, plain bool)) {
	t.Helper()
	encoded, _ := reflect.TypeAssert[message](filled)
	want, _ := reflect.TypeAssert[message](reflect.New(filled.Type().Elem()))
	raw, err := encoded.Marshal()
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	if err := want.Unmarshal(raw); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	for range 3 {
		lent := bytes.Clone(raw)
		got, plain := decode(lent)
		clear(lent)
		if !plain {
			t.Fatal("it was left to Unmarshal")
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}

// TestUnusualMessagesAreDecodedAsByUnmarshal: fields of a newer server, parts that come twice,
// which protobuf merges, and others that no encoder writes.
func TestUnusualMessagesAreDecodedAsByUnmarshal(t *testing.T) {
	usual, err := pod().Marshal()
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	plain := protobuf.Compiled(reflect.TypeFor[corev1.Pod]())
	field := func(number protowire.Number, content string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), content)
	}
	newer := slices.Concat(
		field(90, "text"), protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 1<<40),
		protowire.AppendFixed32(protowire.AppendTag(nil, 91, protowire.Fixed32Type), 7),
		protowire.AppendFixed64(protowire.AppendTag(nil, 92, protowire.Fixed64Type), 7),
	)
	group := protowire.AppendGroup(protowire.AppendTag(nil, 93, protowire.StartGroupType), 93, field(1, "x"))
	for name, c := range map[string]struct {
		more  []byte
		plain bool
	}{
		"newer fields": {more: newer, plain: true}, "nothing": {plain: true}, "a group": {more: group},
		"a second metadata": {more: field(1, string(field(1, "again")))},
		"a second spec":     {more: field(2, string(field(10, "node-2")))},
		"labels apart": {more: field(1, string(slices.Concat(
			field(11, "\n\x01a\x12\x01b"), field(1, "n"), field(11, "\n\x01c\x12\x01d"),
		)))},
		"an empty entry":  {more: field(1, string(field(11, "")))},
		"a name twice":    {more: field(1, string(slices.Concat(field(1, "a"), field(1, "b"))))},
		"packed numbers":  {more: field(2, string(field(14, string(field(4, "\x01\x02\x03")))))},
		"a broken length": {more: []byte{2<<3 | 2, 0x7f}}, "another wire type": {more: []byte{2 << 3, 1}},
		"a field 0": {more: []byte{0, 0}}, "a broken number": {more: bytes.Repeat([]byte{0xff}, 12)},
	} {
		raw := slices.Concat(usual, c.more)
		want := &corev1.Pod{}
		wantErr := want.Unmarshal(raw)
		if _, is := plain(raw); is != c.plain {
			t.Errorf("%s: decoded without Unmarshal: %t", name, is)
		}
		d := protobuf.New[*corev1.Pod]()
		d.Share()
		for range 3 {
			got, err := d.Decode(enveloped(t, &runtime.Unknown{Raw: raw}))
			if wantErr != nil && kube.Classify(err) != kube.OutcomeDecode || wantErr == nil && !reflect.DeepEqual(want, got) {
				t.Errorf("%s: %v, want %v: %s", name, err, wantErr, cmp.Diff(want, got))
			}
		}
	}
}

func TestRememberedValuesAreBounded(t *testing.T) {
	d := protobuf.New[*corev1.ConfigMap]()
	d.Share()
	long := strings.Repeat("x", 8000)
	most := 0
	for n := range 3000 { // 24 MB of values, each twice
		raw, err := (&corev1.ConfigMap{Data: map[string]string{"a": long + fmt.Sprint(n)}}).Marshal()
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		for range 2 {
			if _, err := d.Decode(enveloped(t, &runtime.Unknown{Raw: raw})); err != nil {
				t.Fatalf("decode: %v", err)
			}
		}
		_, size := protobuf.Remembered(d)
		most = max(most, size)
	}
	if values, _ := protobuf.Remembered(d); values < 100 || most > 4<<20+32<<10 {
		t.Errorf("%d values are remembered, at most %d bytes were", values, most)
	}
}

func TestValuesThatDoNotComeAgainAreForgotten(t *testing.T) {
	d := protobuf.New[*corev1.ConfigMap]()
	d.Share()
	n := 0
	decode := func(m *corev1.ConfigMap) {
		n++
		m.Name = fmt.Sprint(n)
		raw, err := m.Marshal()
		if err != nil {
			t.Fatalf("marshal: %v", err)
		}
		if _, err := d.Decode(enveloped(t, &runtime.Unknown{Raw: raw})); err != nil {
			t.Fatalf("decode: %v", err)
		}
	}
	for range 3 {
		decode(&corev1.ConfigMap{Data: map[string]string{"key": "a value that comes again"}})
	}
	if values, _ := protobuf.Remembered(d); values == 0 {
		t.Fatal("nothing is remembered")
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	for range 256 {
		decode(&corev1.ConfigMap{BinaryData: map[string][]byte{"key": large}})
	}
	if values, _ := protobuf.Remembered(d); values != 0 {
		t.Errorf("%d values are remembered", values)
	}
}

func TestConcurrentReadersGetEqualObjects(t *testing.T) {
	d := protobuf.New[*corev1.Pod]()
	d.Share()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range 500 {
				want := pod()
				want.Name, want.Labels["app"] = fmt.Sprint(n), fmt.Sprint("an app with a long name ", n/9)
				want.Spec.NodeName = fmt.Sprint("node-", n%7)
				if got, err := d.Decode(inEnvelope(t, want)); err != nil || !cmp.Equal(want, got) {
					t.Errorf("%v: %s", err, cmp.Diff(want, got))
				}
			}
		})
	}
	wg.Wait()
}

func TestPartsOfObjectsAreSharedOnlyByDecode(t *testing.T) {
	d := protobuf.New[*corev1.Pod]()
	d.Share()
	p := pod()
	p.Labels["a label that is long"] = "enough to be shared"
	raw := inEnvelope(t, p)
	var last, alone [3]*corev1.Pod
	for i := range last {
		var err error
		if last[i], err = d.Decode(raw); err != nil {
			t.Fatalf("decode: %v", err)
		}
		if alone[i], err = d.DecodeAlone(raw); err != nil {
			t.Fatalf("decode: %v", err)
		}
	}
	if &last[1].Spec.Containers[0] != &last[2].Spec.Containers[0] {
		t.Error("containers are not shared")
	}
	last[2].Labels["x"] = "y"
	if last[1].Labels["x"] != "y" || last[0].Labels["x"] != "" || alone[2].Labels["x"] != "" {
		t.Errorf("labels: %v %v %v", last[0].Labels, last[1].Labels, alone[2].Labels)
	}
	if cap(last[2].Spec.Containers) != 1 {
		t.Errorf("shared containers have room for %d", cap(last[2].Spec.Containers))
	}
}
