package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/wire"
)

// LimitPodHardAntiAffinityTopology is upstream's plugin of this name: pods may keep others away from their node only, not
// from a zone.
func LimitPodHardAntiAffinityTopology() plugins.Plugin {
	return plugins.Plugin{
		Name:     "LimitPodHardAntiAffinityTopology",
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create, upstream.Update}}},
		Validate: func(_ context.Context, w *plugins.Write) error {
			terms, _, _ := unstructured.NestedSlice(w.Object.Object, "spec", "affinity", "podAntiAffinity",
				"requiredDuringSchedulingIgnoredDuringExecution") // the rules of the kind refuse a wrong type
			for _, item := range terms {
				term, _ := item.(map[string]any)
				if key := plugins.Text(term, "topologyKey"); key != corev1.LabelHostname {
					return wire.Forbidden(pods, w.Object.GetName(),
						fmt.Sprintf("affinity.PodAntiAffinity.RequiredDuringScheduling "+
							"has TopologyKey %v but only key %v is allowed", key, corev1.LabelHostname))
				}
			}
			return nil
		},
	}
}
