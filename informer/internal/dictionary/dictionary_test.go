package dictionary_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/informer/internal/dictionary"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func object(n int) string {
	return fmt.Sprintf(
		`{"kind":"Pod","metadata":{"name":"web-%05d","uid":"%08x-aaaa","labels":{"app":"web","n":"%d"},`+
			`"managedFields":[{"manager":"m","fieldsV1":{"f:a":{".":{},"k:{\"x\":\"y\"}":{}}}}]},"spec":{"replicas":%d,`+
			`"list":["a","b",{"c":null}],"on":true,"half":0.5}}`, n, n*7919, n%9, n%3)
}

// inProtobuf is an object in Kubernetes' protobuf encoding.
func inProtobuf(tb testing.TB, n int) string {
	tb.Helper()
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("web-%05d", n), Labels: map[string]string{"app": "web", "track": fmt.Sprint(n % 3)},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "a manager",
			//nolint:staticcheck // the methods instead of Raw are too new for the oldest library that is supported
			FieldsV1: &metav1.FieldsV1{Raw: []byte(object(n))},
		}},
	}}
	p.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "example.org/image:7", TerminationMessagePath: "/dev/termination-log",
	}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "main", ImageID: "sha256:012345", ContainerID: fmt.Sprint(n * 7919),
	}}
	raw, err := p.Marshal()
	if err != nil {
		tb.Fatalf("encode: %v", err)
	}
	around := runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: "Pod", APIVersion: "v1"}, Raw: raw}
	if raw, err = around.Marshal(); err != nil {
		tb.Fatalf("encode: %v", err)
	}
	return "k8s\x00" + string(raw)
}

func TestDecompressReturnsTheTextThatWasCompressed(t *testing.T) {
	d := dictionary.New()
	texts := []string{
		``, `7`, `null`, `"a"`, `{`, `}`, `{"a"`, `{"a":`, `{"a":1,}`, `[1,2`, ` { "a" : [ 1 , 2 ] } `, `{"a":"\"},{"}`, "\"\\",
		`{"a":{}}x`, strings.Repeat(`[`, 5000), "k8s\x00", "k8s\x00\x12\x05ab", "k8s\x00\x12", "k8s\x00\xff\xff\xff\xff\xff",
		"k8s\x00" + strings.Repeat("\x12\x7f", 5000),
	}
	for n := range 300 {
		texts = append(texts, object(n), object(n%7), inProtobuf(t, n), inProtobuf(t, n%7))
	}
	var packed []string
	for range 3 { // when nothing, something, everything is known
		for _, text := range texts {
			packed = append(packed, string(d.Compress(nil, []byte(text))))
		}
	}
	for n, p := range packed {
		got, err := d.Decompress(nil, p)
		if want := texts[n%len(texts)]; err != nil || string(got) != want {
			t.Fatalf("%q became %q, %v", want, got, err)
		}
	}
}

func TestSimilarObjectsCompressToAQuarter(t *testing.T) {
	d := dictionary.New()
	for n := range 100 {
		d.Compress(nil, []byte(object(n)))
	}
	text := object(100)
	if !json.Valid([]byte(text)) {
		t.Fatal("the test has no JSON")
	}
	if packed := d.Compress(nil, []byte(text)); len(packed) > len(text)/4 {
		t.Errorf("%d bytes of %d are left: %q", len(packed), len(text), packed)
	}
}

func TestSimilarMessagesCompressToAThird(t *testing.T) {
	d := dictionary.New()
	for n := range 100 {
		d.Compress(nil, []byte(inProtobuf(t, n)))
	}
	text := inProtobuf(t, 100)
	if packed := d.Compress(nil, []byte(text)); len(packed) > len(text)/3 {
		t.Errorf("%d bytes of %d are left: %q", len(packed), len(text), packed)
	}
}

func TestDictionaryIsBounded(t *testing.T) {
	d := dictionary.New()
	unpacked := map[string]string{}
	long := strings.Repeat("x", 8000)
	for n := range 3000 { // 24 MB of texts, each twice
		text := fmt.Sprintf(`{"a":"%s%d"}`, long, n)
		d.Compress(nil, []byte(text))
		d.Compress(nil, []byte(text))
		unpacked[string(d.Compress(nil, []byte(text)))] = text
	}
	kept := 0
	for packed, text := range unpacked {
		if got, err := d.Decompress(nil, packed); err != nil || string(got) != text {
			t.Fatal("a text is lost")
		}
		if len(packed) > len(long) {
			kept++
		}
	}
	if kept < 1500 {
		t.Errorf("only %d of 3000 texts are kept by the objects: the dictionary has no bound", kept)
	}
}

func TestDictionaryIsSafeForConcurrentUse(t *testing.T) {
	d := dictionary.New()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for n := range 300 {
				text := object(n + w)
				if got, err := d.Decompress(nil, string(d.Compress(nil, []byte(text)))); err != nil || string(got) != text {
					t.Errorf("%q became %q, %v", text, got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestDamagedTextIsAnError(t *testing.T) {
	for _, packed := range []string{"\x80", "\x09", "\x0aab", strings.Repeat("\xff", 12)} {
		if got, err := dictionary.New().Decompress(nil, packed); err == nil {
			t.Errorf("%q became %q", packed, got)
		}
	}
}

// FuzzCompress: decompressing returns the text.
func FuzzCompress(f *testing.F) {
	f.Add([]byte(object(1)))
	f.Add([]byte(inProtobuf(f, 1)))
	f.Add([]byte(`{"a":[1,{"b":"c\\"}]} `))
	d := dictionary.New()
	f.Fuzz(func(t *testing.T, text []byte) {
		for range 3 {
			if got, err := d.Decompress(nil, string(d.Compress(nil, text))); err != nil || string(got) != string(text) {
				t.Fatalf("%q became %q, %v", text, got, err)
			}
		}
	})
}
