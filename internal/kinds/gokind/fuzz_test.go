package gokind_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/builtin/builtintest"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// kindOf picks a kind by number, so that fuzzing visits all.
func kindOf(n uint8) *kinds.Resource {
	all := builtin.Catalog().Resources()
	return all[int(n)%len(all)]
}

// mustBeStatus requires an error to be one that a client may see.
func mustBeStatus(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*wire.StatusError](err); err != nil && !ok {
		t.Fatalf("got %v (%T), want a *wire.StatusError", err, err)
	}
}

// write does to a body what a write does.
func write(t *testing.T, r *kinds.Resource, body []byte) {
	t.Helper()
	u, _, err := r.Type.Decode(body, kinds.FieldsWarn)
	if err != nil {
		mustBeStatus(t, err)
		return
	}
	if err := r.Type.Default(u); err != nil {
		t.Fatal(err)
	}
	r.Type.Validate(u, nil)
	r.Type.Validate(u, u.DeepCopy())
	encoded, err := u.MarshalJSON()
	if err != nil {
		t.Fatalf("what was decoded cannot be encoded: %v", err)
	}
	if _, _, err := r.Type.Decode(encoded, kinds.FieldsStrict); err != nil {
		t.Fatalf("what was encoded cannot be decoded: %v\n%s", err, encoded)
	}
}

func FuzzDecode(f *testing.F) {
	for i, r := range builtin.Catalog().Resources() {
		f.Add(uint8(i), builtintest.Manifest(f, r))
	}
	f.Fuzz(func(t *testing.T, n uint8, body []byte) { write(t, kindOf(n), body) })
}

func FuzzDecodeProtobuf(f *testing.F) {
	for i, r := range builtin.Catalog().Resources() {
		f.Add(uint8(i), builtintest.Envelope(f, r, builtintest.Manifest(f, r)))
	}
	f.Fuzz(func(t *testing.T, n uint8, body []byte) {
		r := kindOf(n)
		decoded, err := r.Type.DecodeProtobuf(body)
		if err != nil {
			mustBeStatus(t, err)
			return
		}
		if !json.Valid(decoded) {
			t.Fatalf("not JSON: %q", decoded)
		}
		write(t, r, decoded)
	})
}

func FuzzDecodeDeleteOptions(f *testing.F) {
	f.Add([]byte("k8s\x00"))
	f.Add([]byte("k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x02\x08\x05"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, err := gokind.DecodeDeleteOptions(body)
		mustBeStatus(t, err)
	})
}

func FuzzStrategicMerge(f *testing.F) {
	for i, r := range builtin.Catalog().Resources() {
		f.Add(uint8(i), builtintest.Manifest(f, r), []byte(`{"metadata":{"labels":{"a":"b"},"finalizers":["x"]}}`))
	}
	pod := []byte(`{"spec":{"containers":[{"name":"a","image":"a"},{"name":"b","image":"b"}]}}`)
	for _, patch := range []string{
		`{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`,
		`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"c"}]}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`,
		`{"spec":{"$retainKeys":["containers"],"containers":[{"name":"a"}]}}`,
		`{"$patch":"replace","spec":{}}`,
		`{"spec":{"containers":{"name":"a"}}}`,
		`{"spec":null}`,
		`{"spec":{"containers":[{"name":["a"]}]}}`,
		`{"spec":{"$retainKeys":[{}]}}`,
		`{"metadata":{"$setElementOrder/finalizers":[{}],"finalizers":[{}]}}`,
	} {
		f.Add(uint8(8), pod, []byte(patch))
	}
	f.Fuzz(func(t *testing.T, n uint8, original, patch []byte) {
		r := kindOf(n)
		// What is patched is always an object that was decoded before.
		u, _, err := r.Type.Decode(original, kinds.FieldsIgnore)
		if err != nil {
			return
		}
		stored, err := u.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		patched, err := r.Type.StrategicMerge(stored, patch)
		if err != nil {
			mustBeStatus(t, err)
			return
		}
		write(t, r, patched)
	})
}
