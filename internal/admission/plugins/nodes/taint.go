// Package taint is upstream's admission plugin TaintNodesByCondition
// (plugin/pkg/admission/nodetaint of Kubernetes 1.37).
//
// A [Plugin] gives each new node the taint of nodes that are not ready, which the node lifecycle
// controller of kube-controller-manager removes when the node is ready.
package taint

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
)

// Name is the plugin's name in flags of kube-apiserver.
const Name = "TaintNodesByCondition"

// Plugin is an admission plugin.
type Plugin struct{}

var _ admission.Plugin = Plugin{}

// Handles implements admission.Plugin.
func (Plugin) Handles(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	return r.Group == "" && r.Plural == "nodes" && subresource == "" && op == upstream.Create
}

// Admit implements admission.Plugin.
func (Plugin) Admit(_ context.Context, a upstream.Attributes, redo func() error) error {
	if a.GetResource().Group != "" || a.GetResource().Resource != "nodes" || a.GetSubresource() != "" ||
		a.GetOperation() != upstream.Create {
		return nil
	}
	node, is := a.GetObject().(*unstructured.Unstructured)
	if !is {
		return fmt.Errorf("taint a node: the object is a %T", a.GetObject())
	}
	taints, _, err := unstructured.NestedSlice(node.Object, "spec", "taints")
	if err != nil {
		return fmt.Errorf("taint a node: %w", err)
	}
	for _, taint := range taints {
		// A taint is the same if these two are: pkg/apis/core/v1 Taint.MatchTaint.
		has, _ := taint.(map[string]any)
		if has["key"] == corev1.TaintNodeNotReady && has["effect"] == string(corev1.TaintEffectNoSchedule) {
			return nil
		}
	}
	taints = append(taints, map[string]any{"key": corev1.TaintNodeNotReady, "effect": string(corev1.TaintEffectNoSchedule)})
	if err := unstructured.SetNestedSlice(node.Object, taints, "spec", "taints"); err != nil {
		return fmt.Errorf("taint a node: %w", err)
	}
	return redo()
}

// Validate implements admission.Plugin; it refuses nothing.
func (Plugin) Validate(context.Context, upstream.Attributes) error { return nil }
