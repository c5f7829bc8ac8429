package scale_test

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/wire"
)

func object(tb testing.TB, body string) *wire.Object {
	tb.Helper()
	o, err := wire.ParseObject([]byte(body), nil)
	if err != nil {
		tb.Fatalf("parse the object: %v", err)
	}
	return o
}

func target() kinds.Target {
	return kinds.Target{Namespace: "ns", Name: "x", Resource: &kinds.Resource{
		Group: "g.example.com", Version: "v1", Plural: "foos", Namespaced: true,
		Scale: &kinds.ScalePaths{
			SpecReplicas: []string{"spec", "n"}, StatusReplicas: []string{"status", "n"}, Selector: []string{"status", "sel"},
		},
	}}
}

func TestScaleShowsStringAndObjectSelectors(t *testing.T) {
	expression := `{"matchExpressions":[{"operator":"Frob"}]}`
	for selector, want := range map[string]string{
		`"a=b,c!=d"`:                `"selector":"a=b,c!=d"`,
		`{"matchLabels":{"a":"b"}}`: `"selector":"a=b"`,
		expression:                  ``,
		`7`:                         ``,
	} {
		got, err := scale.Of(target(),
			object(t,
				`{"apiVersion":"g.example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"ns","uid":"u",`+
					`"resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"n":3},"status":{"n":2,"sel":`+
					selector+`}}`), 0)
		if err != nil {
			t.Fatalf("find it: %v", err)
		}
		if want != "" {
			want += ","
		}
		full := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z",` +
			`"name":"x","namespace":"ns","resourceVersion":"5","uid":"u"},"spec":{"replicas":3},"status":{"replicas":2`
		if want != "" {
			full += "," + want[:len(want)-1]
		}
		full += `}}`
		if string(got.JSON()) != full {
			t.Errorf("selector %s:\n%s, want\n%s", selector, got.JSON(), full)
		}
	}
}

func TestScaleOfAResourceWithoutOneIsNotFound(t *testing.T) {
	at := target()
	at.Resource.Scale = nil
	if _, err := scale.Of(at, object(t, `{"metadata":{}}`), 0); wire.StatusOf(err).Code != 404 {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"replicas":7}}`, `{"spec":{"replicas":1.5}}`,
		`{"spec":null}`, `[]`, ``,
	} {
		f.Add([]byte(body))
	}
	current := object(f,
		`{"apiVersion":"g.example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"ns","uid":"u",`+
			`"resourceVersion":"5"},"spec":"no map"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		s, _, err := scale.Decode(body, kinds.FieldsWarn)
		if err == nil {
			_, err = s.Set(target(), current)
		}
		if err != nil {
			if code := wire.StatusOf(err).Code; code < 400 || code > 499 {
				t.Errorf("%q: %d %v", body, code, err)
			}
		}
	})
}

// TestTheScaleOfACustomResourceNeedsItsReplicas: as upstream a read says that there are none, a
// write must set them, and values of other types are errors.
func TestTheScaleOfACustomResourceNeedsItsReplicas(t *testing.T) {
	at := target()
	at.Resource.Scale.Strict = true
	with := func(spec, status string) *wire.Object {
		return object(t,
			`{"apiVersion":"g.example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"ns","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":`+spec+`,"status":`+status+`}`)
	}
	for _, test := range []struct{ spec, status, want string }{
		{`{}`, `{}`, `500 InternalError Internal error occurred: the spec replicas field ".spec.n" does not exist`},
		{`{"n":"1"}`, `{}`, `500  .spec.n accessor error: 1 is of the type string, expected int64`},
		{`{"n":1}`, `{"n":true}`, `500  .status.n accessor error: true is of the type bool, expected int64`},
		{
			`{"n":1}`, `{"sel":{"matchLabels":{}}}`,
			`500  .status.sel accessor error: map[matchLabels:map[]] is of the type map[string]interface {}, expected string`,
		},
	} {
		_, err := scale.Read(at, with(test.spec, test.status))
		s := wire.StatusOf(err)
		if got := fmt.Sprintf("%d %s %s", s.Code, s.Reason, s.Message); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.spec, test.status, got, test.want)
		}
	}
	if _, err := scale.Read(at, with(`{"n":0}`, `{}`)); err != nil {
		t.Errorf("read: %v", err)
	}
	var s scale.Scale
	s.Name, s.Spec.Replicas = "x", scale.Unset
	_, err := s.Set(at, with(`{}`, `{}`))
	if got := wire.StatusOf(err); got.Code != 400 || got.Message != `the spec replicas field ".spec.n" cannot be empty` {
		t.Errorf("a write that does not set them: %v", got)
	}
}
