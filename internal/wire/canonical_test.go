package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/wire"
)

func TestCanonicalPutsTypeAndMetadataFirstAndSortsTheRest(t *testing.T) {
	got, err := wire.Canonical(map[string]any{
		"spec": map[string]any{"z": int64(1), "a": []any{nil, true, "x", map[string]any{}, []any{}}},
		"kind": "Foo", "apiVersion": "t/v1", "data": map[string]any(nil), "zero": []any(nil),
		"metadata": map[string]any{"resourceVersion": "5", "name": "x", "labels": map[string]string{"b": "<&>", "a": "1"}},
		"count":    int32(3),
	})
	if err != nil {
		t.Fatalf("encode the object: %v", err)
	}
	want := `{"apiVersion":"t/v1","kind":"Foo","metadata":{"labels":{"a":"1","b":"<&>"},"name":"x"},` +
		`"count":3,"data":null,"spec":{"a":[null,true,"x",{},[]],"z":1},"zero":null}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCanonicalDoesNotChangeItsInput(t *testing.T) {
	tree := map[string]any{"metadata": map[string]any{"resourceVersion": "5"}}
	if _, err := wire.Canonical(tree); err != nil {
		t.Fatalf("encode the object: %v", err)
	}
	if diff := cmp.Diff(map[string]any{"metadata": map[string]any{"resourceVersion": "5"}}, tree); diff != "" {
		t.Errorf("the input changed (-want +got):\n%s", diff)
	}
}

func TestCanonicalNumbersAreThoseOfEncodingJSON(t *testing.T) {
	for _, n := range []any{
		int64(math.MaxInt64), int64(math.MinInt64), 0, 0.0, math.Copysign(0, -1), 1.5, 1e21, 1e-7, 1e-10, 123456789.125, 5e-324,
		math.MaxFloat64, 1e20, 0.000001, float64(float32(0.1)), json.Number("12345678901234567890.10"), json.Number("1E5"),
		uint64(math.MaxUint64),
	} {
		got, err := wire.Canonical(map[string]any{"a": n})
		if err != nil {
			t.Fatalf("encode the object: %v", err)
		}
		want, err := json.Marshal(map[string]any{"a": n})
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%v (%T): got %s, want %s", n, n, got, want)
		}
	}
}

func TestCanonicalRefusesValuesWithoutAJSONForm(t *testing.T) {
	loop := map[string]any{}
	loop["a"] = loop
	list := []any{nil}
	list[0] = list
	for name, value := range map[string]any{
		"NaN": math.NaN(), "infinity": math.Inf(-1), "no number": json.Number("1x"), "a channel": make(chan int), "a loop": loop,
		"a loop of lists": list,
		"text as number":  json.Number(`1,"b":2`),
	} {
		if got, err := wire.Canonical(map[string]any{"a": value}); err == nil {
			t.Errorf("%s was encoded: %.80s", name, got)
		}
	}
}

// encodeReference is encoding/json without HTML escapes.
func encodeReference(t *testing.T, value any) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		t.Fatalf("encode enc: %v", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// TestAFailedEncodingLeavesNothingBehind: buffers are used again for the next object.
func TestAFailedEncodingLeavesNothingBehind(t *testing.T) {
	bad := map[string]any{"spec": map[string]any{"a": "1", "list": []any{map[string]any{"b": math.NaN()}}}}
	for i := range 20 {
		if out, err := wire.CanonicalManaged(bad, []byte(`[{"manager":"m"}]`)); err == nil {
			t.Fatalf("got %s, want an error", out)
		}
		large := strings.Repeat("x", i*8<<10) // also more than a buffer that is kept
		out, err := wire.Canonical(map[string]any{
			"metadata": map[string]any{"name": "a"}, "data": map[string]any{"b": large, "a": int64(i)},
		})
		if want := fmt.Sprintf(`{"metadata":{"name":"a"},"data":{"a":%d,"b":"%s"}}`,
			i, large); err != nil || string(out) != want {
			t.Fatalf("got %.200s, %v; want %.200s", out, err, want)
		}
	}
}

// TestEncodedObjectsKeepTheirBytes: what was encoded does not change when other objects are, at
// the same time or later.
func TestEncodedObjectsKeepTheirBytes(t *testing.T) {
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			var kept [][]byte
			for i := range 200 {
				out, err := wire.Canonical(map[string]any{"data": fmt.Sprintf("%d of %d", i, worker)})
				if err != nil {
					t.Errorf("encode the object: %v", err)
				}
				kept = append(kept, out)
			}
			for i, out := range kept {
				if want := fmt.Sprintf(`{"data":"%d of %d"}`, i, worker); string(out) != want {
					t.Errorf("got %s, want %s", out, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestCanonicalStringsAreThoseOfEncodingJSON(t *testing.T) {
	var all strings.Builder
	for c := range 256 {
		all.WriteByte(byte(c))
	}
	for _, s := range []string{
		"", "plain", "<b>&</b>", "\"\\\b\f\n\r\t\x00\x1f\x7f", "ä€😀", "\u2028\u2029\u202a", "a\xffb\xe2\x80", "\xe2\x80\xa8",
		"\ufffd", all.String(),
	} {
		got, err := wire.Canonical(map[string]any{s: s})
		if err != nil {
			t.Fatalf("encode the object: %v", err)
		}
		if want := encodeReference(t, map[string]any{s: s}); !bytes.Equal(got, want) {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(pod))
	f.Add([]byte(`{"metadata":{"resourceVersion":"1"},"a":"\ud800\u2028<","b":-0.0,"kind":1e400,"\"":{}}`))
	f.Add([]byte(`{"apiVersion":null,"metadata":[],"kind":{"":[]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var tree map[string]any
		if dec.Decode(&tree) != nil || tree == nil {
			return
		}
		got, err := wire.Canonical(tree)
		if err != nil {
			t.Fatalf("a tree that came from JSON cannot be encoded: %v", err)
		}
		if meta, is := tree["metadata"].(map[string]any); is {
			delete(meta, "resourceVersion")
		}
		dec = json.NewDecoder(bytes.NewReader(got))
		dec.UseNumber()
		var back map[string]any
		if err := dec.Decode(&back); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if diff := cmp.Diff(tree, back); diff != "" {
			t.Fatalf("another tree came back (-in +out):\n%s", diff)
		}
		// The members are those of encoding/json, in another order.
		if len(got) != len(encodeReference(t, tree)) {
			t.Fatalf("got %s, encoding/json has %s", got, encodeReference(t, tree))
		}
	})
}
