// Package builtintest has an object of each built-in kind, for tests.
package builtintest

import (
	"embed"
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

//go:embed manifests
var manifests embed.FS

// Resource returns a built-in resource.
func Resource(tb testing.TB, group, version, plural string) *kinds.Resource {
	tb.Helper()
	r, ok := builtin.Catalog().Lookup(kinds.GroupVersionResource{Group: group, Version: version, Resource: plural})
	if !ok {
		tb.Fatalf("no resource %s/%s %s", group, version, plural)
	}
	return r
}

// File is the name of a kind's files: its resource, with the version for a view of
// the same resource.
func File(r *kinds.Resource) string {
	if r.Conversion != nil && r.Conversion.Of.GR() == r.GR() {
		return r.Plural + "." + r.Version + "." + r.Group
	}
	return r.GR().String()
}

// Manifest returns the manifest of a kind as JSON.
func Manifest(tb testing.TB, r *kinds.Resource) []byte {
	tb.Helper()
	text, err := manifests.ReadFile("manifests/" + File(r) + ".yaml")
	if err != nil {
		tb.Fatalf("read a manifest: %v", err)
	}
	body, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		tb.Fatalf("read the manifest of %s: %v", r.GR(), err)
	}
	return body
}

// Written decodes, defaults and completes a body as a creation does.
func Written(tb testing.TB, r *kinds.Resource, body []byte) *unstructured.Unstructured {
	tb.Helper()
	u, warnings, err := r.Type.Decode(body, kinds.FieldsStrict)
	if err != nil {
		tb.Fatalf("decode: %v", err)
	}
	if len(warnings) > 0 {
		tb.Fatalf("warnings: %q", warnings)
	}
	if err := r.Type.Default(u); err != nil {
		tb.Fatalf("default: %v", err)
	}
	if r.Complete == nil {
		return u
	}
	if err := r.Complete(u.Object, nil); err != nil {
		tb.Fatalf("complete: %v", err)
	}
	return u
}

// Envelope encodes a JSON manifest as a protobuf request body.
func Envelope(tb testing.TB, r *kinds.Resource, body []byte) []byte {
	tb.Helper()
	obj, ok := reflect.TypeAssert[interface {
		runtime.Object
		Marshal() ([]byte, error)
	}](reflect.New(r.GoType))
	if !ok {
		tb.Fatalf("%s has no protobuf form", r.GoType)
	}
	if err := json.Unmarshal(body, obj); err != nil {
		tb.Fatalf("decode: %v", err)
	}
	raw, err := obj.Marshal()
	if err != nil {
		tb.Fatalf("encode: %v", err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: r.APIVersion(), Kind: r.Kind}, Raw: raw}
	content, err := unknown.Marshal()
	if err != nil {
		tb.Fatalf("encode the envelope: %v", err)
	}
	return append([]byte("k8s\x00"), content...)
}
