package nodes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/admission/plugins/nodes"
)

func attributes(object *unstructured.Unstructured, resource, subresource string, op upstream.Operation) upstream.Attributes {
	gv := apischema.GroupVersion{Version: "v1"}
	return upstream.NewAttributesRecord(object, nil, gv.WithKind("Node"), "", "n", gv.WithResource(resource), subresource, op,
		nil, false, nil)
}

func TestNewNodesAreNotReady(t *testing.T) {
	notReady := map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
	mine := map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
	for name, c := range map[string]struct {
		spec any
		want []any
	}{
		"no spec":          {nil, []any{notReady}},
		"no taints":        {map[string]any{"podCIDR": "10.0.0.0/24"}, []any{notReady}},
		"null":             {map[string]any{"taints": []any{}}, []any{notReady}},
		"another one":      {map[string]any{"taints": []any{mine}}, []any{mine, notReady}},
		"it has the taint": {map[string]any{"taints": []any{notReady}}, []any{notReady}},
		"it has it with a value": {
			map[string]any{
				"taints": []any{map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "value": "v"}},
			}, []any{map[string]any{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule", "value": "v"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			if c.spec != nil {
				u.Object["spec"] = c.spec
			}
			if err := plugins.NewSet(nodes.TaintNodesByCondition()).Admit(t.Context(),
				attributes(u, "nodes", "", upstream.Create),
				func() error { return nil }); err != nil {
				t.Fatalf("admit: %v", err)
			}
			got, _, err := unstructured.NestedSlice(u.Object, "spec", "taints")
			if err != nil {
				t.Fatalf("read the list: %v", err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("taints -want +got:\n%s", diff)
			}
		})
	}
}

func TestOtherWritesAreLeftAlone(t *testing.T) {
	for _, a := range []upstream.Attributes{
		attributes(&unstructured.Unstructured{Object: map[string]any{}}, "nodes", "", upstream.Update),
		attributes(&unstructured.Unstructured{Object: map[string]any{}}, "nodes", "proxy", upstream.Create),
		attributes(&unstructured.Unstructured{Object: map[string]any{}}, "pods", "", upstream.Create),
	} {
		// The invariants bring it into its form, also where nothing has changed.
		err := plugins.NewSet(nodes.TaintNodesByCondition()).Admit(t.Context(), a, func() error { return nil })
		if err != nil || len(a.GetObject().(*unstructured.Unstructured).Object) != 0 {
			t.Errorf("%v %s/%s: %v %v", a.GetOperation(), a.GetResource().Resource, a.GetSubresource(), a.GetObject(), err)
		}
	}
}
