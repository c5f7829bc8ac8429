package fieldmanager

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// customs is a custom resource with every kind of list and map.
func customs(tb testing.TB) (*kinds.Resource, *unstructured.Unstructured) {
	tb.Helper()
	const openAPI = `{"type":"object","properties":{"status":{"type":"object"},"spec":{"type":"object","properties":{
"text":{"type":"string"},"number":{"type":"number"},"flag":{"type":"boolean"},"either":{"x-kubernetes-int-or-string":true},
"plain":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"},"filled":{"type":"string","default":"x"}}}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"keyed":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name","port"],"items":{"type":"object","properties":{
"name":{"type":"string"},"port":{"type":"integer","default":80},"value":{"type":"string"}}}},
"atomic":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"}}},
"labels":{"type":"object","additionalProperties":{"type":"string"}},
"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}`
	const names = `{"plural":"things","kind":"Thing","listKind":"ThingList"}`
	versions, err := custom.Resources(
		[]byte(
			`{"metadata":{"name":"things.t.example.com"},"spec":{"group":"t.example.com","scope":"Cluster","names":` + names + `,
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":` + openAPI +
				`}}]},
"status":{"acceptedNames":` + names + `,"conditions":[{"type":"Established","status":"True"}]}}`))
	if err != nil || len(versions) != 1 {
		tb.Fatalf("%d versions, %v", len(versions), err)
	}
	tree, err := jsontree.Decode(
		[]byte(`{"apiVersion":"t.example.com/v1","kind":"Thing","metadata":{"name":"a","labels":{"l":"1"},
"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"o","uid":"u"}],"finalizers":["x.io/f","x.io/g"]},"status":{"x":1},"spec":{
"text":"a","number":1.5,"flag":true,"either":"x","plain":[{"a":"b"}],"set":["a","b\"c"],"keyed":[{"name":"x","value":"1"},{"name":"x","port":81},{"name":"y<"}],
"atomic":{"a":"b"},"labels":{"k":"v"},"any":{"deep":{"list":[{"x":null}],"more":{"n":1}},"either":[]}}}`))
	if err != nil {
		tb.Fatalf("decode: %v", err)
	}
	return versions[0], &unstructured.Unstructured{Object: tree}
}

// create tracks a creation, and puts the managedFields into u.
func create(m *Managers, target kinds.Target, u *unstructured.Unstructured, manager string) error {
	record, err := m.Update(target, u, nil, manager)
	if err != nil || record == nil {
		return err
	}
	stored, err := wire.CanonicalManaged(u.Object, record)
	if err != nil {
		return err
	}
	tree, err := jsontree.Decode(stored)
	if err != nil {
		return err
	}
	u.Object["metadata"].(map[string]any)["managedFields"], _, err = unstructured.NestedSlice(tree, "metadata", "managedFields")
	again, failed := wire.Canonical(tree)
	if failed == nil && string(again) != string(stored) {
		failed = fmt.Errorf("it is not in the canonical form: %s, want %s", stored, again)
	}
	return errors.Join(err, failed)
}

// TestCreationsAreTrackedAsByTheLibrary compares the short way with upstream's library, for
// upstream's fixtures and a custom resource, each also with one member removed or emptied in
// turn.
func TestCreationsAreTrackedAsByTheLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	all := fixtures(t)
	r, u := customs(t)
	all[r] = u
	m := New(kinds.NewLive(builtin.Catalog().With(r)), nil)
	compared, short := 0, 0
	for r, u := range all {
		u.SetManagedFields(nil)
		variant := func() {
			compared++
			if compareCreation(t, m, kinds.Target{Resource: r}, u) {
				short++
			}
		}
		variant()
		members := 0
		changed(u.Object, func() { members++ })
		every, i := max(1, members/12), 0
		changed(u.Object, func() {
			if i++; i%every == 0 || r.Custom {
				variant()
			}
		})
	}
	t.Logf("%d of %d objects went the short way", short, compared)
	if compared < 500 || short < compared*9/10 {
		t.Errorf("%d of %d objects went the short way", short, compared)
	}
}

// TestCreationsShareMemoryWithoutMixing: the memory for the fields of an object is used again for
// the next one, unless it was large.
func TestCreationsShareMemoryWithoutMixing(t *testing.T) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	r, _ := builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for _, keys := range []int{1, 24, 2, 25, mostParts, 2, 2 * mostParts, mostKept / 16, 3} {
		data := map[string]any{}
		for i := range keys {
			data[fmt.Sprintf("key-%d-of-%d", i, keys)] = "v"
		}
		u := &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": data,
			},
		}
		if !compareCreation(t, m, kinds.Target{Resource: r}, u) {
			t.Errorf("the short way was not taken for %d keys", keys)
		}
	}
}

// changed calls fn with each member of each object removed, nulled and emptied in turn.
func changed(at any, fn func()) {
	switch at := at.(type) {
	case map[string]any:
		for name, value := range at {
			if name == "apiVersion" || name == "kind" || name == "metadata" {
				continue
			}
			delete(at, name)
			fn()
			others := []any{nil}
			switch value.(type) {
			case map[string]any:
				others = append(others, map[string]any{})
			case []any:
				others = append(others, []any{})
			}
			for _, other := range others {
				at[name] = other
				fn()
			}
			at[name] = value
			changed(value, fn)
		}
	case []any:
		for _, value := range at {
			changed(value, fn)
		}
	}
}

// compareCreation reports whether the short way was taken.
func compareCreation(t *testing.T, m *Managers, target kinds.Target, u *unstructured.Unstructured) bool {
	t.Helper()
	f, err := m.of(target)
	if err != nil {
		t.Fatalf("find it: %v", err)
	}
	got, want := u.DeepCopy(), u.DeepCopy()
	_, ok := f.created(got.Object, "m")
	if diff := cmp.Diff(u.Object, got.Object); diff != "" {
		t.Errorf("%s is not left as it was: %s", u.GetKind(), diff)
	}
	if !ok {
		return false
	}
	f.update(f.empty(), want, "m")
	if err := create(m, target, got, "m"); err != nil {
		t.Errorf("create: %v", err)
	}
	if diff := cmp.Diff(withoutTimes(t, want), withoutTimes(t, got)); diff != "" {
		text, _ := json.Marshal(u.Object)
		t.Errorf("%s: -library +short: %s", text, diff)
	}
	return true
}

func withoutTimes(t *testing.T, u *unstructured.Unstructured) map[string]any {
	t.Helper()
	entries := u.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	u.SetManagedFields(entries)
	return u.Object
}

// BenchmarkCreation tracks the creation of a Pod: the short way, and by the library.
func BenchmarkCreation(b *testing.B) {
	m := New(kinds.NewLive(builtin.Catalog()), nil)
	tree, err := jsontree.Decode([]byte(pod))
	if err != nil {
		b.Fatalf("decode: %v", err)
	}
	r, _ := builtin.Catalog().Lookup(kinds.GroupVersionResource{Version: "v1", Resource: "pods"})
	u := &unstructured.Unstructured{Object: tree}
	f, err := m.of(kinds.Target{Resource: r})
	if err != nil {
		b.Fatalf("find it: %v", err)
	}
	b.Run("short", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			u.SetManagedFields(nil)
			if _, ok := f.created(u.Object, "m"); !ok {
				b.Fatal("it is left to the library")
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			u.SetManagedFields(nil)
			f.update(f.empty(), u, "m")
		}
	})
}

const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b","labels":{"app":"web","tier":"front"}},` +
	`"spec":{
"containers":[{"name":"c","image":"i:1","imagePullPolicy":"Always","ports":[{"containerPort":80,"protocol":"TCP"}],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],
"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,
"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler","enableServiceLinks":true}}`
