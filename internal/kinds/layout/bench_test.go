package layout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/wire"
)

// benchmarked are values of the store.
func benchmarked(b *testing.B) map[string][]byte {
	b.Helper()
	fields := `"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{},"f:b":{}}},` +
		`"manager":"kubectl","operation":"Update","time":"2026-01-02T03:04:05Z"}]`
	metadata := `"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"app":"a","tier":"b"},` + fields +
		`,"name":"a","namespace":"default","uid":"11111111-2222-4333-8444-555555555555"}`
	text := func(size int) string {
		return fmt.Sprintf(`{"a":%q,"b":%q}`, strings.Repeat("x", size/2), strings.Repeat("YWJj", size/8))
	}
	pod := builtintest.Resource(b, "", "v1", "pods")
	whole := builtintest.Written(b, pod, builtintest.Manifest(b, pod))
	small, err := wire.Canonical(whole.Object)
	if err != nil {
		b.Fatalf("encode a pod: %v", err)
	}
	containers := whole.Object["spec"].(map[string]any)["containers"].([]any)
	for len(containers) < 24 {
		containers = append(containers, containers[0])
	}
	whole.Object["spec"].(map[string]any)["containers"] = containers
	large, err := wire.Canonical(whole.Object)
	if err != nil {
		b.Fatalf("encode a pod: %v", err)
	}
	head := func(kind string) string { return `{"apiVersion":"v1","kind":"` + kind + `",` + metadata + `,"data":` }
	custom := `{"apiVersion":"example.com/v1","kind":"Foo",` + metadata + `,"spec":`
	return map[string][]byte{
		"configmaps/default/2KB":       []byte(head("ConfigMap") + text(1600) + `}`),
		"configmaps/default/16KB":      []byte(head("ConfigMap") + text(15600) + `}`),
		"secrets/default/2KB":          []byte(head("Secret") + text(1600) + `,"type":"Opaque"}`),
		"pods/default/small":           small,
		"pods/default/large":           large,
		"foos.example.com/default/2KB": []byte(custom + text(1600) + `}`),
	}
}

func BenchmarkEncode(b *testing.B) {
	l := newLayout()
	for key, value := range benchmarked(b) {
		b.Run(fmt.Sprintf("%s=%d", key, len(value)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Encode(key, value, nil); err != nil {
					b.Fatalf("encode: %v", err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	l := newLayout()
	for key, value := range benchmarked(b) {
		stored, err := l.Encode(key, value, nil)
		if err != nil {
			b.Fatalf("encode: %v", err)
		}
		b.Run(fmt.Sprintf("%s=%d", key, len(stored)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Decode(key, stored); err != nil {
					b.Fatalf("decode: %v", err)
				}
			}
		})
	}
}

func BenchmarkStoreKey(b *testing.B) {
	l := newLayout()
	for b.Loop() {
		l.StoreKey("/registry/services/specs/default/a")
	}
}
