package apiregistration_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds/apiregistration"
)

// TestOnlyLocalAPIServicesAreAvailableAtOnce holds that no client says that a server behind is there.
func TestOnlyLocalAPIServicesAreAvailableAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		spec map[string]any
		want string
	}{
		"local":  {map[string]any{"group": "a.b", "version": "v1"}, "Local"},
		"remote": {map[string]any{"service": map[string]any{"namespace": "a", "name": "b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := apiregistration.Kinds()[0]
			u := &unstructured.Unstructured{Object: map[string]any{
				"metadata": map[string]any{"name": "v1.a.b"}, "spec": tt.spec,
				"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "reason": "Mine"}}},
			}}
			delete(u.Object, "status") // as for all kinds with a status
			if err := r.Type.Default(u); err != nil {
				t.Fatalf("fill in defaults: %v", err)
			}
			if err := r.Complete(u.Object, nil); err != nil {
				t.Fatalf("complete: %v", err)
			}
			reason := ""
			if all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions"); len(all) > 0 {
				reason, _, _ = unstructured.NestedString(all[0].(map[string]any), "reason")
			}
			if reason != tt.want {
				t.Errorf("the condition's reason is %q, want %q", reason, tt.want)
			}
			if port, _, _ := unstructured.NestedInt64(u.Object, "spec", "service", "port"); tt.want == "" && port != 443 {
				t.Errorf("the port is %d, want 443", port)
			}
		})
	}
}
