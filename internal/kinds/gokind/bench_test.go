package gokind_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
)

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
	benchmarkDecode(b, builtintest.Resource(b, "", "v1", "configmaps"), configMapBody(b))
}

func BenchmarkDecodePod(b *testing.B) {
	r := builtintest.Resource(b, "", "v1", "pods")
	benchmarkDecode(b, r, builtintest.Manifest(b, r))
}

func BenchmarkDecodeDeployment(b *testing.B) {
	r := builtintest.Resource(b, "apps", "v1", "deployments")
	benchmarkDecode(b, r, builtintest.Manifest(b, r))
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
