package fieldmanager

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/wire"
)

// boats returns the managers of a server with a custom resource of two versions, of which v1beta1
// is not served, and a target of v1.
func boats(t *testing.T) (*Managers, kinds.Target) {
	t.Helper()
	const names = `{"plural":"boats","kind":"Boat","listKind":"BoatList"}`
	const version = `"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",` +
		`"properties":{"a":{"type":"string"},"b":{"type":"string"},"n":{"type":"integer"}}}}}},
"subresources":{"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}}}`
	all, err := custom.Resources([]byte(`{"spec":{"group":"t.example.com","scope":"Cluster","names":` + names + `,"versions":[
{"name":"v1","served":true,"storage":true,` + version + `,{"name":"v1beta1","served":false,"storage":false,` + version + `]},
"status":{"acceptedNames":` + names + `,"conditions":[{"type":"Established","status":"True"}]}}`))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d versions, %v", len(all), err)
	}
	return New(kinds.NewLive(builtin.Catalog().With(all...)), nil), kinds.Target{Resource: all[0], Name: "b"}
}

// boat is an object whose spec.a somebody applied in a version.
func boat(apiVersion string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "t.example.com/v1", "kind": "Boat",
		"metadata": map[string]any{"name": "b", "uid": "u"},
		"spec":     map[string]any{"a": "1", "n": int64(1)},
	}}
	u.SetManagedFields([]metav1.ManagedFieldsEntry{
		{
			Manager: "older", Operation: "Apply", APIVersion: apiVersion, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:a":{},"f:n":{}}}`),
		},
	})
	return u
}

func set(u *unstructured.Unstructured, field string) *unstructured.Unstructured {
	next := u.DeepCopy()
	next.SetManagedFields(nil)
	next.Object["spec"] = map[string]any{field: "2"}
	return next
}

// entries are the entries of an object in short.
func entries(u *unstructured.Unstructured) (all []string) {
	for _, e := range u.GetManagedFields() {
		all = append(all, fmt.Sprintf("%s %s %s %s", e.Manager, e.Operation, e.APIVersion, e.FieldsV1.GetRawString()))
	}
	return all
}

const kept = `older Apply t.example.com/v1beta1 {"f:spec":{"f:a":{},"f:n":{}}}`

func TestFieldsManagedInAnUnservedVersionStayManaged(t *testing.T) {
	m, target := boats(t)
	old := boat("t.example.com/v1beta1")
	applied, err := m.Apply(target, old, Configuration{Object: set(old, "b"), Manager: "m"})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if diff := cmp.Diff([]string{kept, `m Apply t.example.com/v1 {"f:spec":{"f:b":{}}}`}, entries(applied)); diff != "" {
		t.Errorf("after an apply (-want +got):\n%s", diff)
	}
	if _, err := m.Apply(target, old, Configuration{Object: set(old, "a"), Manager: "m"}); wire.StatusOf(err).Code != 409 {
		t.Errorf("an apply to the other manager's field: got %v, want a conflict", err)
	}
	next := set(old, "a")
	if _, err := m.Update(target, next, old, "m"); err != nil {
		t.Fatalf("update: %v", err)
	}
	if diff := cmp.Diff([]string{`m Update t.example.com/v1 {"f:spec":{"f:a":{}}}`}, entries(next)); diff != "" {
		t.Errorf("after an update of both fields (-want +got):\n%s", diff)
	}
	now := Scaled{Target: target, Object: old, Scale: &unstructured.Unstructured{Object: map[string]any{}}}
	if err := m.ShowScale(now); err != nil {
		t.Fatalf("show scale: %v", err)
	}
	if diff := cmp.Diff([]string{`older Apply autoscaling/v1 {"f:spec":{"f:replicas":{}}}`}, entries(now.Scale)); diff != "" {
		t.Errorf("of the scale (-want +got):\n%s", diff)
	}
}

// TestFieldsManagedInAMissingVersion: of a custom resource they prevent applies, as upstream
// (apiextensions-apiserver conversion/converter.go, whose error the library does not know), and an
// update leaves all managedFields as they are. Of a built-in kind they are dropped.
func TestFieldsManagedInAMissingVersion(t *testing.T) {
	m, target := boats(t)
	for apiVersion, want := range map[string]string{
		"t.example.com/v1alpha1": "request to convert CR to an invalid group/version: t.example.com/v1alpha1",
		"apps/v1":                `t.example.com/v1, Kind=Boat is unstructured and is not suitable for converting to "apps/v1"`,
	} {
		old := boat(apiVersion)
		_, err := m.Apply(target, old, Configuration{Object: set(old, "b"), Manager: "m", Force: true})
		if status := wire.StatusOf(err); status.Code != 500 || status.Message != want {
			t.Errorf("an apply to fields in %s: got %d %q, want 500 %q", apiVersion, status.Code, status.Message, want)
		}
		next := set(old, "b")
		if _, err := m.Update(target, next, old, "m"); err != nil {
			t.Fatalf("update: %v", err)
		}
		if diff := cmp.Diff(entries(old), entries(next)); diff != "" {
			t.Errorf("after an update of fields in %s (-want +got):\n%s", apiVersion, diff)
		}
	}

	target = configMaps(t)
	old := wide(1)
	old.SetManagedFields(boat("v9").GetManagedFields())
	applied, err := m.Apply(target, old, Configuration{Object: wide(1), Manager: "m"})
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	if got := entries(applied); len(got) != 1 || !strings.HasPrefix(got[0], "m Apply v1 ") {
		t.Errorf("a ConfigMap has %q, want the entry of m only", got)
	}
}

// TestEventsLoseManagersOfTheOtherGroup: as upstream, whose types of core and of other groups are apart.
func TestEventsLoseManagersOfTheOtherGroup(t *testing.T) {
	catalog := builtin.Catalog()
	m := New(kinds.NewLive(catalog), nil)
	r, is := catalog.Lookup(kinds.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"})
	if !is {
		t.Fatal("there are no events")
	}
	target := kinds.Target{Resource: r, Namespace: "default", Name: "b"}
	event := func(note string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "events.k8s.io/v1", "kind": "Event",
			"metadata": map[string]any{"name": "b", "namespace": "default", "uid": "u"}, "note": note,
		}}
	}
	for apiVersion, want := range map[string]int{"v1": 1, "events.k8s.io/v1": 2} {
		old := event("1")
		old.SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "older", Operation: "Update", APIVersion: apiVersion, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:type":{}}`),
		}})
		next := event("2")
		if _, err := m.Update(target, next, old, "m"); err != nil {
			t.Fatalf("update: %v", err)
		}
		if got := entries(next); len(got) != want {
			t.Errorf("with fields that are managed in %s there are %q, want %d entries", apiVersion, got, want)
		}
	}
}
