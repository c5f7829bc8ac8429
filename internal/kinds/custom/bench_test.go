package custom_test

import (
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
)

func BenchmarkDecodeCustom(b *testing.B) {
	foo := resources(b, "foos")["v1"]
	body := []byte(
		`{"apiVersion":"samplecontroller.k8s.io/v1","kind":"Foo","metadata":{"name":"x","labels":{"a":"b"}},` +
			`"spec":{"deploymentName":"d","note":"` + strings.Repeat("n", 900) + `"}}`)
	b.ReportAllocs()
	for b.Loop() {
		u, _, err := foo.Type.Decode(body, kinds.FieldsWarn)
		if err != nil {
			b.Fatal(err)
		}
		if err := foo.Type.Default(u); err != nil {
			b.Fatal(err)
		}
		if errs, _ := foo.Type.Validate(u, nil); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkResources(b *testing.B) {
	body, err := definition(b, "certificates", kinds.NewCatalog()).MarshalJSON()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := custom.Resources(body); err != nil {
			b.Fatal(err)
		}
	}
}
