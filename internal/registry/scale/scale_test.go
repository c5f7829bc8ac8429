package scale_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

func object(tb testing.TB, body string) *kube.Object {
	tb.Helper()
	o, err := kube.ParseObject([]byte(body), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

func target() schema.Target {
	return schema.Target{Namespace: "ns", Name: "x", Resource: &schema.Resource{
		Group: "g.example.com", Version: "v1", Plural: "foos", Namespaced: true,
		Scale: &schema.ScalePaths{SpecReplicas: []string{"spec", "n"}, StatusReplicas: []string{"status", "n"}, Selector: []string{"status", "sel"}},
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
		got, err := scale.Of(target(), object(t, `{"apiVersion":"g.example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"ns","uid":"u","resourceVersion":"5","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"n":3},"status":{"n":2,"sel":`+selector+`}}`))
		if err != nil {
			t.Fatal(err)
		}
		if want != "" {
			want += ","
		}
		full := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","name":"x","namespace":"ns","resourceVersion":"5","uid":"u"},"spec":{"replicas":3},"status":{"replicas":2`
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
	if _, err := scale.Of(at, object(t, `{"metadata":{}}`)); kube.StatusOf(err).Code != 404 {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, body := range []string{`{}`, `{"metadata":{"name":"x","resourceVersion":"5"},"spec":{"replicas":7}}`, `{"spec":{"replicas":1.5}}`, `{"spec":null}`, `[]`, ``} {
		f.Add([]byte(body))
	}
	current := object(f, `{"apiVersion":"g.example.com/v1","kind":"Foo","metadata":{"name":"x","namespace":"ns","uid":"u","resourceVersion":"5"},"spec":"no map"}`)
	f.Fuzz(func(t *testing.T, body []byte) {
		s, _, err := scale.Decode(body, schema.FieldsWarn)
		if err == nil {
			_, err = s.Set(target(), current)
		}
		if err != nil {
			if code := kube.StatusOf(err).Code; code < 400 || code > 499 {
				t.Errorf("%q: %d %v", body, code, err)
			}
		}
	})
}
