package builtin_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// policyFile has the roles and bindings that a start of the server makes, one on a line.
// -update writes it anew from upstream's.
var policyFile = filepath.Join("..", "..", "internal", "bootstrap", "policy.jsonl")

// bootstrapPolicy is upstream's, in the order in which upstream makes it: plugin/pkg/auth/authorizer/rbac
// as pkg/registry/rbac/rest puts it together.
func bootstrapPolicy(t *testing.T) []runtime.Object {
	t.Helper()
	var all []runtime.Object
	for _, roles := range [][]runtime.Object{
		pointers(bootstrappolicy.ClusterRoles()), pointers(bootstrappolicy.ControllerRoles()),
		pointers(bootstrappolicy.ClusterRoleBindings()), pointers(bootstrappolicy.ControllerRoleBindings()),
	} {
		all = append(all, roles...)
	}
	roles, bindings := bootstrappolicy.NamespaceRoles(), bootstrappolicy.NamespaceRoleBindings()
	for _, namespace := range slices.Sorted(maps.Keys(roles)) {
		all = append(all, pointers(roles[namespace])...)
	}
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		all = append(all, pointers(bindings[namespace])...)
	}
	return all
}

// pointers returns pointers to the elements of a slice of API structs.
func pointers[T any, P interface {
	*T
	runtime.Object
}](of []T) []runtime.Object {
	var all []runtime.Object
	for i := range of {
		all = append(all, P(&of[i]))
	}
	return all
}

// TestBootstrapRolesAreUpstreams compares every role and binding of a start with upstream's.
func TestBootstrapRolesAreUpstreams(t *testing.T) {
	var want bytes.Buffer
	for _, o := range bootstrapPolicy(t) {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatalf("to unstructured: %v", err)
		}
		u := unstructured.Unstructured{Object: tree}
		unstructured.RemoveNestedField(tree, "metadata", "creationTimestamp")
		if tree["rules"] == nil {
			delete(tree, "rules")
		}
		if u.GetKind() == "" {
			u.SetAPIVersion("rbac.authorization.k8s.io/v1")
			u.SetKind(kindOf(o))
		}
		line, err := json.Marshal(tree)
		if err != nil {
			t.Fatalf("encode as JSON: %v", err)
		}
		want.Write(append(line, '\n'))
	}
	if *update {
		if err := os.WriteFile(policyFile, want.Bytes(), 0o644); err != nil {
			t.Fatalf("write a file: %v", err)
		}
	}
	got, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatalf("read a file: %v", err)
	}
	if diff := cmp.Diff(byName(t, want.Bytes()), byName(t, got)); diff != "" {
		t.Errorf("roles and bindings of a start (-upstream +ours), -update writes %s anew:\n%s", policyFile, diff)
	}
}

// kindOf is the name of the object's type.
func kindOf(o runtime.Object) string { return reflect.TypeOf(o).Elem().Name() }

func byName(t *testing.T, lines []byte) map[string]any {
	t.Helper()
	all := map[string]any{}
	for line := range bytes.Lines(lines) {
		var u unstructured.Unstructured
		if err := json.Unmarshal(line, &u.Object); err != nil {
			t.Fatalf("decode JSON: %v", err)
		}
		all[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = u.Object
	}
	return all
}
