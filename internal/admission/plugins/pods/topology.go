package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// PodTopologyLabels is upstream's plugin of this name: pods get the labels of the zone and the region of their node,
// when they are bound or created there.
func PodTopologyLabels(cluster plugins.Cluster) plugins.Plugin {
	return plugins.Plugin{
		Name: "PodTopologyLabels",
		Concerns: []plugins.Concern{
			{Resource: pods, Operations: []upstream.Operation{upstream.Create}},
			{Resource: pods, Subresource: "binding", Operations: []upstream.Operation{upstream.Create}},
		},
		Admit: func(_ context.Context, w *plugins.Write) error {
			name := nodeOf(w)
			if name == "" {
				return nil
			}
			if err := cluster.UnknownOf(kinds.GroupResource{Resource: "nodes"}, "", name); err != nil { // before the look
				return err
			}
			node := cluster.Find(kinds.GroupResource{Resource: "nodes"}, wire.Key{Name: name})
			if node == nil {
				return nil
			}
			for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
				if value, has := node.Labels()[key]; has {
					if err := unstructured.SetNestedField(w.Object.Object, value, "metadata", "labels", key); err != nil {
						return fmt.Errorf("label a pod with its %s: %w", key, err)
					}
				}
			}
			return nil
		},
	}
}

// nodeOf returns the node of a pod, or of its binding; "" if there is none.
func nodeOf(w *plugins.Write) string {
	if w.GetSubresource() == "" {
		name, _, _ := unstructured.NestedString(w.Object.Object, "spec", "nodeName") // a wrong type is no name
		return name
	}
	target, _, _ := unstructured.NestedMap(w.Object.Object, "target") // a wrong type is no target
	if plugins.Text(target, "kind") != "Node" {
		return ""
	}
	return plugins.Text(target, "name")
}
