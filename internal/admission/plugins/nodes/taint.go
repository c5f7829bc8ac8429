// Package nodes has admission plugins for nodes.
package nodes

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
)

// TaintName is the name of TaintNodesByCondition.
const TaintName = "TaintNodesByCondition"

// TaintNodesByCondition is upstream's plugin of this name: it gives each new node the taint of nodes that are not
// ready, which the node lifecycle controller of kube-controller-manager removes when the node is ready.
func TaintNodesByCondition() plugins.Plugin {
	nodes := kinds.GroupResource{Resource: "nodes"}
	return plugins.Plugin{
		Name:     TaintName,
		Concerns: []plugins.Concern{{Resource: nodes, Operations: []upstream.Operation{upstream.Create}}},
		Admit: func(_ context.Context, w *plugins.Write) error {
			spec, err := plugins.Spec(w.Object)
			if err != nil {
				return err
			}
			taints, _ := spec["taints"].([]any)
			// A taint is the same if these two are: pkg/apis/core/v1 Taint.MatchTaint.
			if slices.ContainsFunc(taints, func(t any) bool {
				has, _ := t.(map[string]any)
				return has["key"] == corev1.TaintNodeNotReady && has["effect"] == string(corev1.TaintEffectNoSchedule)
			}) {
				return nil
			}
			spec["taints"] = append(taints, map[string]any{
				"key": corev1.TaintNodeNotReady, "effect": string(corev1.TaintEffectNoSchedule),
			})
			return nil
		},
	}
}
