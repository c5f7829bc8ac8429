package jsontree_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// What is read the short way is what Kubernetes' decoder makes, which then has
// nothing to complain of.
func check(t *testing.T, body []byte) (read bool) {
	t.Helper()
	got, err := jsontree.DecodePlain(body)
	if err != nil {
		return false
	}
	want := map[string]any{}
	problems, err := kjson.UnmarshalStrict(body, &want)
	if err != nil || len(problems) > 0 {
		t.Errorf("%q was read, but %v %v", body, err, problems)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q: %s", body, diff)
	}
	return true
}

func TestDecodeMatchesTheKubernetesDecoder(t *testing.T) {
	for body, readable := range map[string]bool{
		`{}`: true,
		` {"a":1,"b":[true,false,null,"x\u00e9\n",1.5,-7,-0.25,{}],"c":{"d":[]}} ` + "\n": true,
		`{"a":9223372036854775807,"b":-9223372036854775808}`:                              true,
		`{"a":9223372036854775808}`:                                                       false,
		`{"a":1e3}`:                                                                       false,
		`{"a":0.0}`:                                                                       false,
		`{"a":0.12345678901234567}`:                                                       false,
		`{"a":1e999}`:                                                                     false,
		`{"a":-0}`:                                                                        false,
		`{"a":1,"a":2}`:                                                                   false,
		`{"a":{"b":1,"b":2}}`:                                                             false,
		`[]`:                                                                              false,
		`{} {}`:                                                                           false,
		`{"a":"\ud800"}`:                                                                  false,
		"{\"a\":\"\xff\"}":                                                                false,
		`{"a":01}`:                                                                        false,
		`{"a":"\u00e4ä\\\"/"}`:                                                            true,
		"{\"ä\":\"ö\"}":                                                                   true,
		`{"a":"\ud83d\ude00"}`:                                                            true,
		`{"a":tru}`:                                                                       false,
		`{"a":1,}`:                                                                        false,
		`{"a":1}x`:                                                                        false,
		`{"\u0061":1,"a":2}`:                                                              false,
		``:                                                                                false,
		`{`:                                                                               false,
		`null`:                                                                            false,
	} {
		if got := check(t, []byte(body)); got != readable {
			t.Errorf("%q: read %t", body, got)
		}
	}
}

func TestDecodeTakesWhatIsUnusual(t *testing.T) {
	got, err := jsontree.Decode([]byte(`{"a":1,"a":2}`))
	if diff := cmp.Diff(map[string]any{"a": int64(2)}, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if got, err := jsontree.Decode([]byte(`{"a"`)); err == nil {
		t.Errorf("got %v", got)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,"x",{"b":null}],"c":-1e-7}`))
	f.Add([]byte(`{"a":1,"A":2,"a":3}`))
	f.Fuzz(func(t *testing.T, body []byte) { check(t, body) })
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","labels":{"a":"b","c":"d"}},"spec":{"containers":[{"name":"a",` +
			`"image":"b","ports":[{"containerPort":80}]}],"note":"` + strings.Repeat("n", 900) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsontree.DecodePlain(body); err != nil {
			b.Fatal(err)
		}
	}
}
