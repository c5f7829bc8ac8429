package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// oracle reads an object with encoding/json.
type oracle struct {
	apiVersion, kind, name, namespace, uid, rv string
	labels                                     labels.Set
	nodeName, phase                            string
}

func readOracle(tree map[string]any) oracle {
	text := func(m map[string]any, key string) string {
		s, _ := m[key].(string)
		return s
	}
	meta, _ := tree["metadata"].(map[string]any)
	want := oracle{
		apiVersion: text(tree, "apiVersion"), kind: text(tree, "kind"),
		name: text(meta, "name"), namespace: text(meta, "namespace"), uid: text(meta, "uid"), rv: text(meta, "resourceVersion"),
	}
	if list, is := meta["labels"].(map[string]any); is && len(list) > 0 {
		want.labels = labels.Set{}
		for key := range list {
			want.labels[key] = text(list, key)
		}
	}
	scalar := func(outer, inner string) string {
		m, _ := tree[outer].(map[string]any)
		switch v := m[inner].(type) {
		case string:
			return v
		case json.Number:
			return string(v)
		case bool:
			if v {
				return "true"
			}
			return "false"
		}
		return ""
	}
	want.nodeName, want.phase = scalar("spec", "nodeName"), scalar("status", "phase")
	return want
}

func decodeTree(raw []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree map[string]any
	err := dec.Decode(&tree)
	return tree, err
}

func hasDuplicates(raw []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowInvalidUTF8(true))
	_, err := dec.ReadValue()
	return errors.Is(err, jsontext.ErrDuplicateName)
}

// wrongShape says that a member that an Object reads has another type than it must.
func wrongShape(tree map[string]any) bool {
	bad := func(m map[string]any, keys ...string) bool {
		for _, key := range keys {
			switch m[key].(type) {
			case nil, string:
			default:
				return true
			}
		}
		return false
	}
	if bad(tree, "apiVersion", "kind") {
		return true
	}
	meta, is := tree["metadata"].(map[string]any)
	if !is {
		return tree["metadata"] != nil
	}
	if bad(meta, "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp") {
		return true
	}
	if _, err := kube.ParseResourceVersion(readOracle(tree).rv); err != nil {
		return true
	}
	// These two are checked by value; the fuzzer only needs to know that they are there.
	if meta["generation"] != nil || meta["creationTimestamp"] != nil {
		return true
	}
	list, is := meta["labels"].(map[string]any)
	if !is {
		return meta["labels"] != nil
	}
	for key := range list {
		if bad(list, key) {
			return true
		}
	}
	return false
}

func FuzzParseObject(f *testing.F) {
	for _, seed := range []string{
		pod, `{}`, `null`, ` { "metadata" : { "resourceVersion" : "5" , "labels" : { } } } `, "{\"metadata\":\n{}}",
		`{"metadata":{"resourceVersion":"1","resourceVersion":null},"metadata":{"name":"\u0061\ud800"}}`,
		`{"apiVersion":"v1","apiVersion":"v2","spec":{"nodeName":1e5,"nodeName":"x"},"status":{"phase":true},"spec":{}}`,
		"{\"metadata\":{\"name\":\"\xff\",\"labels\":{\"\xc3\xa4\":null}}}", `{"a":[1,-0.5e+10,[],{},"\\\"\/"]}`,
		`{"metadata":{"generation":3,"resourceVersion":""}}`,
	} {
		f.Add([]byte(seed))
	}
	sel := []wire.FieldPath{{Label: "n", Path: []string{"spec", "nodeName"}}, {Label: "p", Path: []string{"status", "phase"}}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := wire.ParseObject(raw, sel)
		tree, treeErr := decodeTree(raw)
		if !json.Valid(raw) || treeErr != nil || tree == nil {
			if err == nil {
				t.Fatalf("%q was read, encoding/json refuses it: %v", raw, treeErr)
			}
			return
		}
		if err != nil {
			if _, is := errors.AsType[*kube.DecodeError](err); !is {
				t.Fatalf("%v is no DecodeError", err)
			}
			if !wrongShape(tree) && !hasDuplicates(raw) {
				t.Fatalf("%q was refused: %v", raw, err)
			}
			return
		}
		checkObject(t, o, tree)
	})
}

// checkObject compares everything that an Object says with the tree of its bytes.
func checkObject(t *testing.T, o *wire.Object, tree map[string]any) {
	t.Helper()
	want := readOracle(tree)
	got := oracle{
		apiVersion: o.APIVersion(), kind: o.Kind(), name: o.Key().Name, namespace: o.Key().Namespace, uid: string(o.UID()),
		rv: want.rv, labels: o.Labels(), nodeName: o.Fields().Get("n"), phase: o.Fields().Get("p"),
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(oracle{})); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if rv, err := kube.ParseResourceVersion(want.rv); err != nil || rv != o.ResourceVersion() {
		t.Fatalf("rv %d, want %q", o.ResourceVersion(), want.rv)
	}
	if bytes.ContainsAny(o.JSON(), "\r\n") {
		t.Fatalf("%q is not one line", o.JSON())
	}
	if !hasDuplicates(o.JSON()) && hasDuplicates(o.WithAPIVersion("x/v9").WithResourceVersion(77).JSON()) {
		t.Fatalf("a member was added that was there: %s", o.JSON())
	}
	sameTree(t, o.JSON(), tree)
	sameTree(t, o.WithAPIVersion("x/v9").JSON(), with(tree, "apiVersion", "x/v9"))
	meta, is := tree["metadata"].(map[string]any)
	if !is {
		return
	}
	other := o.WithResourceVersion(77)
	stamped := with(tree, "metadata", with(meta, "resourceVersion", "77"))
	sameTree(t, other.JSON(), stamped)
	sameTree(t, other.WithAPIVersion("x/v9").WithResourceVersion(1<<40).WithResourceVersion(77).JSON(),
		with(stamped, "apiVersion", "x/v9"))
	bare := with(meta, "resourceVersion", "")
	delete(bare, "resourceVersion")
	sameTree(t, other.Value(), with(tree, "metadata", bare))
	sameTree(t, o.Value(), with(tree, "metadata", bare))
}

func with(tree map[string]any, key string, value any) map[string]any {
	out := maps.Clone(tree)
	out[key] = value
	return out
}

func sameTree(t *testing.T, raw []byte, want map[string]any) {
	t.Helper()
	tree, err := decodeTree(raw)
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	if diff := cmp.Diff(withoutNulls(want), withoutNulls(tree)); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", raw, diff)
	}
}

// withoutNulls drops the two members for which null and absent are the same.
func withoutNulls(tree map[string]any) map[string]any {
	out := maps.Clone(tree)
	if out["apiVersion"] == nil {
		delete(out, "apiVersion")
	}
	if meta, is := out["metadata"].(map[string]any); is && meta["resourceVersion"] == nil {
		meta = maps.Clone(meta)
		delete(meta, "resourceVersion")
		out["metadata"] = meta
	}
	return out
}

func BenchmarkNewObject(b *testing.B) {
	value := benchValue(b)
	sel := podFields()
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.NewObject(value, 1000000042, sel); err != nil {
			b.Fatalf("make an object: %v", err)
		}
	}
}

func BenchmarkWithResourceVersion(b *testing.B) {
	o, err := wire.NewObject(benchValue(b), 1000000042, podFields())
	if err != nil {
		b.Fatalf("make an object: %v", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		o.WithResourceVersion(1000000043)
	}
}

func BenchmarkCanonical(b *testing.B) {
	tree, err := decodeTree(benchValue(b))
	if err != nil {
		b.Fatalf("decode tree: %v", err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Canonical(tree); err != nil {
			b.Fatalf("encode the object: %v", err)
		}
	}
}

// benchValue is an object of 1 KB in the form that a small pod has.
func benchValue(b *testing.B) []byte {
	b.Helper()
	tree, err := decodeTree([]byte(pod))
	if err != nil {
		b.Fatalf("decode tree: %v", err)
	}
	containers := []any{}
	for _, name := range []string{"app", "sidecar", "logs", "metrics", "proxy"} {
		containers = append(containers, map[string]any{
			"name": name, "image": "registry.example.com/team/" + name + ":v1.2.3", "imagePullPolicy": "IfNotPresent",
			"ports": []any{map[string]any{"containerPort": json.Number("8080"), "protocol": "TCP"}},
		})
	}
	tree["spec"].(map[string]any)["containers"] = containers
	value, err := wire.Canonical(tree)
	if err != nil {
		b.Fatalf("encode the object: %v", err)
	}
	return value
}
