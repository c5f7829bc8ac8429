package builtin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestCompletionsFollowTheStoredObject changes the manifest of a kind, and looks at a field
// that the completion fills in.
func TestCompletionsFollowTheStoredObject(t *testing.T) {
	generation := []string{"metadata", "annotations", "deprecated.daemonset.template.generation"}
	tests := []struct {
		name, plural, before, patch string
		path                        []string
		want                        any
	}{
		{"another template", "daemonsets", `{}`, `{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`, generation, "2"},
		{"the same template", "daemonsets", `{}`, `{"spec":{"minReadySeconds":5}}`, generation, "1"},
		{
			"another type", "services", `{"spec":{"type":"NodePort","externalTrafficPolicy":"Local"}}`,
			`{"spec":{"type":"ClusterIP","externalTrafficPolicy":"Local"}}`,
			[]string{"spec", "externalTrafficPolicy"},
			nil,
		},
		{
			"the same phase", "persistentvolumes", `{}`, `{"status":{"lastPhaseTransitionTime":null}}`,
			[]string{"status", "lastPhaseTransitionTime"},
			"2026-11-20T10:00:00Z",
		},
		{
			"a device that is allocated no more", "resourceclaims",
			`{"status":{"allocation":{"devices":{"results":[{"request":"gpu","driver":"d","pool":"p","device":"a"}]}},"devices":[{"driver":"d","pool":"p","device":"a"}]}}`,
			`{"status":{"devices":[{"driver":"d","pool":"p","device":"a"}]}}`,
			[]string{"status", "devices"},
			nil,
		},
		{
			"a gated field", "resourceslices", `{}`, `{"spec":{"partitionTypeAttribute":"a.b/c"}}`,
			[]string{"spec", "partitionTypeAttribute"},
			nil,
		},
		{
			"a kubelet without the field", "pods", `{"status":{"observedGeneration":3}}`, `{}`,
			[]string{"status", "observedGeneration"},
			int64(3),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := byPlural(t, tt.plural)
			old, now := changed(t, r, tt.before), changed(t, r, tt.patch)
			if tt.plural == "persistentvolumes" {
				unstructured.RemoveNestedField(now.Object, "status", "lastPhaseTransitionTime")
			}
			if err := r.Complete(now.Object, old.Object); err != nil {
				t.Fatal(err)
			}
			got, _, err := unstructured.NestedFieldNoCopy(now.Object, tt.path...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tt.path, diff)
			}
		})
	}
}

func TestDaemonSetGenerationMustBeANumber(t *testing.T) {
	r := byPlural(t, "daemonsets")
	u := changed(t, r, `{}`)
	u.SetAnnotations(map[string]string{"deprecated.daemonset.template.generation": "first"})
	if err := r.Complete(u.Object, nil); err == nil {
		t.Error("got no error, want one about the annotation")
	}
}

func TestPodResourcesAreThoseOfItsContainers(t *testing.T) {
	r := byPlural(t, "pods")
	u := changed(t, r, `{"spec":{"initContainers":null,"resources":{"limits":{"memory":"1Gi"}},"containers":[
		{"name":"a","image":"a","resources":{"requests":{"cpu":"100m"},"limits":{"cpu":"200m"}}},
		{"name":"b","image":"b","resources":{"requests":{"cpu":"300m"},"limits":{"cpu":"400m"}}}]}}`)
	got, _, err := unstructured.NestedMap(u.Object, "spec", "resources")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"limits":   map[string]any{"cpu": "600m", "memory": "1Gi"},
		"requests": map[string]any{"cpu": "400m", "memory": "1Gi"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
