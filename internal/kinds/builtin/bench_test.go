package builtin_test

import (
	"encoding/json"
	"strings"
	"testing"

	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

func resource(tb testing.TB, group, version, plural string) *kinds.Resource {
	tb.Helper()
	r, ok := builtin.Catalog().Lookup(runtimeschema.GroupVersionResource{Group: group, Version: version, Resource: plural})
	if !ok {
		tb.Fatalf("no resource %s/%s %s", group, version, plural)
	}
	return r
}

func configMapBody(tb testing.TB) []byte {
	tb.Helper()
	data := map[string]string{}
	for _, key := range []string{"a", "b", "c", "d"} {
		data[key] = strings.Repeat(key, 200)
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": "settings", "namespace": "default", "labels": map[string]string{"app": "x"}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func BenchmarkDecodeConfigMap(b *testing.B) {
	benchmarkDecode(b, resource(b, "", "v1", "configmaps"), configMapBody(b))
}

func BenchmarkDecodePod(b *testing.B) {
	r := resource(b, "", "v1", "pods")
	benchmarkDecode(b, r, manifest(b, r))
}

func BenchmarkDecodeDeployment(b *testing.B) {
	r := resource(b, "apps", "v1", "deployments")
	benchmarkDecode(b, r, manifest(b, r))
}

// benchmarkDecode decodes, defaults and validates a body.
func benchmarkDecode(b *testing.B, r *kinds.Resource, body []byte) {
	b.Helper()
	typ := r.Type
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		u, _, err := typ.Decode(body, kinds.FieldsWarn)
		if err != nil {
			b.Fatal(err)
		}
		if err := typ.Default(u); err != nil {
			b.Fatal(err)
		}
		if errs, _ := typ.Validate(u, nil); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

func BenchmarkCatalog(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		builtin.Catalog()
	}
}
