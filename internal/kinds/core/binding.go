package core

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/tree"
	"github.com/gapless-io/gapless/internal/wire"
)

// finalize copies the finalizers of a namespace's spec, and its metadata.
func finalize(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	whole := sent.DeepCopy()
	tree.Take(whole.Object, old.Object, "status")
	return whole, nil
}

// bind puts a pod on the node that a binding names (kubernetes
// pkg/registry/core/pod/storage BindingREST).
func bind(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := old.GetName()
	target := tree.Child(sent.Object, "target")
	node, _ := target["name"].(string)
	if kind, _ := target["kind"].(string); kind != "" && kind != "Node" {
		return nil, invalidTarget(
			name,
			fmt.Sprintf("target.kind: Unsupported value: %q: supported values: \"Node\", \"<empty>\"", kind),
		)
	}
	if node == "" {
		return nil, invalidTarget(name, "target.name: Required value")
	}
	spec := tree.Child(old.Object, "spec")
	bound, _ := spec["nodeName"].(string)
	gates, _ := spec["schedulingGates"].([]any)
	conflict := func(why string) error {
		return wire.Conflict(kinds.GroupResource{Resource: "pods/binding"}, name, why)
	}
	switch {
	case old.GetDeletionTimestamp() != nil:
		return nil, conflict(fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", name))
	case bound != "":
		return nil, conflict(fmt.Sprintf("pod %s is already assigned to node %q", name, bound))
	case len(gates) > 0:
		return nil, conflict(fmt.Sprintf("pod %s has non-empty .spec.schedulingGates", name))
	}
	pod := old.DeepCopy()
	tree.Made(pod.Object, "spec")["nodeName"] = node
	status := tree.Made(pod.Object, "status")
	delete(status, "nominatedNodeName") // it has done its duty, and would mislead
	status["conditions"] = setCondition(status["conditions"], tree.Object{"type": "PodScheduled", "status": "True"})
	for _, part := range []string{"annotations", "labels"} {
		if added := tree.Child(sent.Object, "metadata", part); len(added) > 0 {
			maps.Copy(tree.Made(pod.Object, "metadata", part), added)
		}
	}
	pod.SetResourceVersion(sent.GetResourceVersion())
	return pod, nil
}

func invalidTarget(name, why string) error {
	e := wire.Invalid(kinds.GroupVersionKind{Kind: "Binding"}.GroupKind(), name, nil)
	e.ErrStatus.Message = fmt.Sprintf("Binding %q is invalid: %s", name, why)
	return e
}

// setCondition returns the conditions with one of them set. Its time is that of the
// transition, if it is one.
func setCondition(conditions any, now tree.Object) []any {
	list, _ := conditions.([]any)
	now["lastProbeTime"], now["lastTransitionTime"] = nil, time.Now().UTC().Format(time.RFC3339)
	for i, item := range list {
		was, _ := item.(tree.Object)
		if was["type"] != now["type"] {
			continue
		}
		if was["status"] == now["status"] {
			now["lastTransitionTime"] = was["lastTransitionTime"]
		}
		list[i] = now
		return list
	}
	return append(list, now)
}
