package custom_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/custom"
)

// TestDefinitionsInGroupsOfKubernetesSayWhetherTheyWereApproved has upstream's reasons.
func TestDefinitionsInGroupsOfKubernetesSayWhetherTheyWereApproved(t *testing.T) {
	for _, tt := range []struct{ group, annotation, want string }{
		{"t.example.com", "", ""},
		{"t.k8s.io", "", "False MissingAnnotation"},
		{"t.k8s.io", "unapproved, a test", "False UnapprovedAnnotation"},
		{"t.k8s.io", "tea", "False InvalidAnnotation"},
		{"t.k8s.io", "https://github.com/kubernetes/kubernetes/pull/1", "True ApprovedAnnotation"},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "foos." + tt.group},
			"spec": map[string]any{"group": tt.group, "names": map[string]any{
				"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList",
			}},
		}}
		if tt.annotation != "" {
			u.SetAnnotations(map[string]string{"api-approved.kubernetes.io": tt.annotation})
		}
		if err := custom.Establish(u, kinds.NewCatalog(), time.Now()); err != nil {
			t.Fatal(err)
		}
		all, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, item := range all {
			if c, is := item.(map[string]any); is && c["type"] == "KubernetesAPIApprovalPolicyConformant" {
				got = c["status"].(string) + " " + c["reason"].(string) //nolint:forcetypeassert // of conditions
			}
		}
		if got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.group, tt.annotation, got, tt.want)
		}
	}
}
