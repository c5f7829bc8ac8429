package custom

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	kjson "sigs.k8s.io/json"
)

// What is read the short way is what Kubernetes' decoder makes, which then has
// nothing to complain of.
func checkTree(t *testing.T, body []byte) (read bool) {
	t.Helper()
	got, err := tree(body)
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

func TestATreeIsWhatKubernetesDecoderMakes(t *testing.T) {
	for body, readable := range map[string]bool{
		`{}`: true,
		` {"a":1,"b":[true,false,null,"x\u00e9\n",1.5,-7,1e3,{}],"c":{"d":[]}} ` + "\n": true,
		`{"a":9223372036854775807,"b":-9223372036854775808,"c":9223372036854775808}`:    true,
		`{"a":1e999}`:         false,
		`{"a":-0}`:            false,
		`{"a":1,"a":2}`:       false,
		`{"a":{"b":1,"b":2}}`: false,
		`[]`:                  false,
		`{} {}`:               false,
		`{"a":"\ud800"}`:      false,
		"{\"a\":\"\xff\"}":    false,
		`{"a":01}`:            false,
		``:                    false,
		`{`:                   false,
		`null`:                false,
	} {
		if got := checkTree(t, []byte(body)); got != readable {
			t.Errorf("%q: read %t", body, got)
		}
	}
}

func FuzzTree(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,"x",{"b":null}],"c":-1e-7}`))
	f.Add([]byte(`{"a":1,"A":2,"a":3}`))
	f.Fuzz(func(t *testing.T, body []byte) { checkTree(t, body) })
}
