package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/informer/internal/decode"
)

var errSlow = errors.New("the slow decoder was called")

// fastOnly is a decoder whose slow decoder is an error.
func fastOnly[T any]() *decode.Decoder[T] {
	return decode.New(func([]byte) (T, error) {
		var none T
		return none, errSlow
	})
}

// everything has one field of each kind that is plain.
type everything struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Text     string                       `json:"text"`
	Untagged string                       //nolint:tagliatelle // what has no tag has its field's name
	Hidden   string                       `json:"-"`
	Bool     bool                         `json:"bool"`
	Int      int32                        `json:"int"`
	Pointer  *int64                       `json:"pointer"`
	Deep     **everything                 `json:"deep"`
	List     []string                     `json:"list"`
	Lists    [][]int                      `json:"lists"`
	Map      map[string]string            `json:"map"`
	Named    map[corev1.ResourceName]bool `json:"named"`
	Structs  map[string]corev1.Toleration `json:"structs"`
	Quantity resource.Quantity            `json:"quantity"`
	Either   intstr.IntOrString           `json:"either"`
	At       metav1.Time                  `json:"at"`
	Micro    *metav1.MicroTime            `json:"micro"`
	Any      any                          `json:"any"`
	Values   map[string]any               `json:"values"`
	Anys     []any                        `json:"anys"`
	Behind   *any                         `json:"behind"`
	Number   json.Number                  `json:"number"`
	Raw      runtime.RawExtension         `json:"raw"`
	Bytes    []byte                       `json:"bytes"`
	Data     map[string][]byte            `json:"data"`
}

const full = ` {"kind":"K","apiVersion":"a/v1","metadata":{"name":"n","labels":{"a":"b"},"managedFields":[{"manager":"m",` +
	`"time":"2026-01-02T03:04:05Z","fieldsV1":{"f:a":{}}}],
"creationTimestamp":"2026-01-02T03:04:05+01:00"},"unknown":{"a":[1,2.5e3,{"b":null}],"c":"\u00e4"},` +
	`"text":"with \"escapes\" and ünïcode","Untagged":"u","Hidden":"no","bool":true,
"int":-7,"pointer":12345678901,"deep":{"text":"below","list":null},"list":["x","y","z"],"lists":[[1],[],[2,3]],"map":{"a":"1","b":""},"named":{"cpu":true},
"structs":{"t":{"key":"k","tolerationSeconds":300}},"quantity":"100m","either":"80%","at":null,"micro":"2026-01-02T03:04:05.123456Z",
"any":{"a":[1,"x",{"b":9007199254740993}],"a":[true,null,-2]},"values":{"size":3,"none":null,"list":[],"size":4},"anys":[0,` +
	`{"a":{}}],"behind":[7],"number":-15,"raw":{"kind":"R","n":1},"bytes":"aGVsbG8=","data":{"a":"YQ==","b":"","c":null}} `

func TestDecodingEqualsClientGosDecoder(t *testing.T) {
	got, err := fastOnly[*everything]().Decode([]byte(full))
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	var want everything
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(full), &want); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
	if got.Text == "" || (*got.Deep).Text != "below" || len(got.Lists) != 3 || got.Micro.Nanosecond() != 123456000 ||
		len(got.ManagedFields) != 1 ||
		got.Values["size"] != int64(4) || got.Number != "-15" {
		t.Errorf("the input did not arrive: %+v", got)
	}
}

func TestSlicesHaveNoSpareCapacity(t *testing.T) {
	d := fastOnly[*everything]()
	for _, n := range []int{5, 1, 9, 0, 3} {
		list, err := json.Marshal(map[string]any{"list": strings.Split(strings.Repeat("a,", n), ",")[:n]})
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		got, err := d.Decode(list)
		if err != nil || got.List == nil || len(got.List) != n || cap(got.List) != n {
			t.Errorf("%s: %v, capacity %d, %v", list, got.List, cap(got.List), err)
		}
	}
}

func TestUnusualInputFallsBackToEncodingJSON(t *testing.T) {
	d := fastOnly[*everything]()
	for _, input := range []string{
		``, `7`, `null`, `[]`, `{`, `{"text":"a"`, `{"text":"a",}`, `{"text":"a"} x`, `{"text":7}`, `{"text":"a\x"}`,
		"{\"text\":\"a\nb\"}",
		`{"int":1.5}`, `{"int":3000000000}`, `{"int":"1"}`, `{"bool":1}`, `{"bool":tru}`, `{"list":["a"],"list":["b"]}`,
		`{"list":{}}`,
		`{"map":{"a":1}}`, `{"map":[]}`, `{"map":{},"map":{}}`, `{"quantity":"x"}`, `{"at":"yesterday"}`,
		`{"pointer":1,"pointer":2}`,
		`{"bytes":"YQ"}`, `{"bytes":[1]}`, `{"data":{"a":"?"}}`, `{"any":1.5}`, `{"any":99999999999999999999}`,
		`{"values":{"a":1e3}}`, `{"number":"5"}`, `{"number":01}`, `{"number":true}`, `{"values":[]}`,
		`{"unknown":[1,]}`, `{"unknown":01}`, `{"unknown":-}`, `{"unknown":1.}`, `{"unknown":nul}`, `{"unknown":{"a" 1}}`,
		`{text:1}`,
		"{\"text\":\"\xff\"}", `{"unknown":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
	} {
		if got, err := d.Decode([]byte(input)); !errors.Is(err, errSlow) {
			t.Errorf("%q was taken: %+v, %v", input, got, err)
		}
	}
}

func TestUnusualTypesFallBackToEncodingJSON(t *testing.T) {
	type bytes struct {
		A [1]byte `json:"a"`
	}
	type quoted struct {
		A int `json:"a,string"`
	}
	type methods struct {
		A fmt.Stringer `json:"a"`
	}
	type twice struct {
		bytes
		*quoted
	}
	for _, err := range []error{
		fallsBack[*bytes](`{"a":[1]}`), fallsBack[*quoted](`{"a":"1"}`), fallsBack[*methods](`{"a":1}`),
		fallsBack[*twice](`{"a":1}`), fallsBack[*int](`1`), fallsBack[bytes](`{}`),
	} {
		if !errors.Is(err, errSlow) {
			t.Errorf("taken: %v", err)
		}
	}
}

func fallsBack[T any](input string) error {
	_, err := fastOnly[T]().Decode([]byte(input))
	return err
}

func TestManagedFieldsCanBeDropped(t *testing.T) {
	typed := fastOnly[*corev1.Pod]()
	typed.StripManagedFields()
	dynamic := fastOnly[*unstructured.Unstructured]()
	dynamic.StripManagedFields()
	slow := decode.New(func(raw []byte) (*corev1.Pod, error) {
		p := &corev1.Pod{}
		return p, json.Unmarshal(raw, p)
	})
	slow.StripManagedFields()
	pod := func(more string) []byte {
		return []byte(
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","managedFields":[{"manager":"m"}],"uid":"u"},` +
				`"spec":{"hostname":"h","managedFields":1` + more + `}}`)
	}
	for name, decode := range map[string]func() (metav1.Object, error){
		"typed":   func() (metav1.Object, error) { return typed.Decode(pod("")) },
		"dynamic": func() (metav1.Object, error) { return dynamic.Decode(pod("")) },
		"slow":    func() (metav1.Object, error) { return slow.Decode(pod(`,"hostname":"\ud800"`)) },
	} {
		o, err := decode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if o.GetManagedFields() != nil || o.GetUID() != "u" {
			t.Errorf("%s: %+v", name, o)
		}
		if u, is := o.(*unstructured.Unstructured); is {
			if kept, _, _ := unstructured.NestedInt64(u.Object, "spec", "managedFields"); kept != 1 {
				t.Error("a member of that name elsewhere is gone too")
			}
		}
	}
}

func TestDynamicObjectsEqualUnstructured(t *testing.T) {
	for _, input := range []string{
		full, `{"kind":"K","a":{"b":[true,false,null,-3,0,"",{}]}}`, `{"kind":"K","apiVersion":"v1","a":1,"a":{"x":2}}`,
	} {
		got, err := fastOnly[*unstructured.Unstructured]().Decode([]byte(strings.ReplaceAll(input, "2.5e3", "25")))
		if err != nil {
			t.Fatalf("%s: %v", input, err)
		}
		want := &unstructured.Unstructured{}
		if err := want.UnmarshalJSON([]byte(strings.ReplaceAll(input, "2.5e3", "25"))); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, input := range []string{
		`{}`, `{"kind":7}`, `{"kind":"K","apiVersion":"a/b/c"}`, `{"kind":"K","apiVersion":1}`, `{"kind":"K","a":1.5}`,
		`{"kind":"K","a":99999999999999999999}`, `{"kind":"K","a":-0}`,
	} {
		if _, err := fastOnly[*unstructured.Unstructured]().Decode([]byte(input)); !errors.Is(err, errSlow) {
			t.Errorf("%s was taken: %v", input, err)
		}
	}
}

// TestNumbersAreThoseOfClientGosDecoder also where the slow decoder decodes them.
func TestNumbersAreThoseOfClientGosDecoder(t *testing.T) {
	d := decode.New(decode.Stock[*everything]())
	for _, number := range []string{
		"0", "-0", "1", "-1", "1.0", "1e3", "1.5", "9007199254740993", "-9223372036854775808", "9223372036854775807",
		"9223372036854775808", "1e400",
	} {
		for _, form := range []string{
			`{"any":%s}`, `{"values":{"a":%s}}`, `{"anys":[[%s]]}`, `{"behind":{"a":{"b":%s}}}`, `{"number":%s}`,
			`{"number":"%s"}`,
		} {
			input := fmt.Appendf(nil, form, number)
			var want everything
			wantErr := kjson.UnmarshalCaseSensitivePreserveInts(input, &want)
			got, err := d.Decode(input)
			if (err != nil) != (wantErr != nil) || err == nil && !reflect.DeepEqual(*got, want) {
				t.Errorf("%s: got %+v, %v, want %+v, %v", input, got, err, want, wantErr)
			}
		}
	}
}

// FuzzDecode: what the fast way takes is what client-go's decoder makes of it, and it takes
// the same when it shares, the first time and when it may know parts of it.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(full))
	f.Add([]byte(podOf(1, 2)))
	for _, seed := range []string{
		`{}`, `{"text":null,"at":null,"list":null}`, `{"metadata":{"name":"a","name":"b"}}`, `{"deep":{"deep":{}}}`,
		`{"kind":"a","x":[1,"b"]}`, `{"map":{"a":"1","b":"2345"},"map":{"a":"1","b":"2345"}}`,
		`{"any":{"a":[1,{"b":2}]},"values":{"c":[true,null,""]},"number":1.5e-3}`,
	} {
		f.Add([]byte(seed))
	}
	typed, dynamic := fastOnly[*everything](), fastOnly[*unstructured.Unstructured]()
	typedShared, dynamicShared := fastOnly[*everything](), fastOnly[*unstructured.Unstructured]()
	typedShared.Share()
	dynamicShared.Share()
	f.Fuzz(func(t *testing.T, input []byte) {
		alone, err := dynamic.Decode(input)
		if err == nil {
			want := &unstructured.Unstructured{}
			if err := want.UnmarshalJSON(input); err != nil || !reflect.DeepEqual(want, alone) {
				t.Errorf("%q: %v\n%s", input, err, cmp.Diff(want, alone))
			}
		}
		same(t, dynamicShared, input, alone, err)
		got, err := typed.Decode(input)
		same(t, typedShared, input, got, err)
		if err != nil {
			return
		}
		var want everything
		if err := kjson.UnmarshalCaseSensitivePreserveInts(input, &want); err != nil {
			t.Fatalf("%q is taken, client-go's decoder: %v", input, err)
		}
		if !cmp.Equal(*got, want, cmp.Comparer(time.Time.Equal)) {
			t.Errorf("%q:\n%s", input, cmp.Diff(want, *got))
		}
	})
}

// same decodes three times, because what came twice is remembered.
func same[T any](t *testing.T, shared *decode.Decoder[T], input []byte, want T, wantErr error) {
	t.Helper()
	for range 3 {
		got, err := shared.Decode(bytes.Clone(input))
		if (err != nil) != (wantErr != nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q, shared: %v, alone: %v\n%s", input, err, wantErr, cmp.Diff(want, got))
		}
	}
}

func TestRepeatedStringsShareMemory(t *testing.T) {
	s := decode.NewStrings()
	for range 2 {
		s.Of([]byte("often"))
	}
	first := s.Boxed([]byte("often"))
	if n := testing.AllocsPerRun(100, func() {
		if s.Boxed([]byte("often")) != first {
			t.Fatal("not the same")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a string that is known", n)
	}
	for k := range 100_000 { // what is unique pushes nothing out
		if text := fmt.Sprintf("unique-%d", k); s.Of([]byte(text)) != text {
			t.Fatal("another text")
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Of([]byte("often")) }); n != 0 {
		t.Errorf("%v allocations for a string that is known, after many others", n)
	}
	if long := strings.Repeat("x", 1000); s.Of([]byte(long)) != long || s.Of(nil) != "" {
		t.Error("long or empty strings are lost")
	}
}
