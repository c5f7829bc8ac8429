// Package parts has the subresources of the built-in kinds: how a body for one changes
// the object.
//
// It has two nouns. A part is what an update of a subresource copies from its body: the
// conditions of an approval, the finalizers of a namespace, the ephemeral containers of a
// pod. A binding assigns a pod to a node.
package parts

import (
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// tree is a decoded JSON object.
type tree = map[string]any

// member returns the object below a path; nil when there is none.
func member(object tree, path ...string) tree {
	for _, name := range path {
		object, _ = object[name].(tree)
	}
	return object
}

// made returns the object below a path of an object that is the caller's, and makes
// it when it is missing.
func made(object tree, path ...string) tree {
	for _, name := range path {
		below, is := object[name].(tree)
		if !is {
			below = tree{}
			object[name] = below
		}
		object = below
	}
	return object
}

// take copies one member of another object into an object that the caller owns.
func take(into, from tree, name string) {
	delete(into, name)
	if value, has := from[name]; has {
		into[name] = runtime.DeepCopyJSONValue(value)
	}
}

// Finalize copies the finalizers of a namespace's spec, and its metadata.
func Finalize(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	whole := sent.DeepCopy()
	take(whole.Object, old.Object, "status")
	return whole, nil
}

// Bind puts a pod on the node that a binding names (kubernetes
// pkg/registry/core/pod/storage BindingREST).
func Bind(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	name := old.GetName()
	target := member(sent.Object, "target")
	node, _ := target["name"].(string)
	if kind, _ := target["kind"].(string); kind != "" && kind != "Node" {
		return nil, invalidTarget(name, fmt.Sprintf("target.kind: Unsupported value: %q: supported values: \"Node\", \"<empty>\"", kind))
	}
	if node == "" {
		return nil, invalidTarget(name, "target.name: Required value")
	}
	spec := member(old.Object, "spec")
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
	made(pod.Object, "spec")["nodeName"] = node
	status := made(pod.Object, "status")
	delete(status, "nominatedNodeName") // it has done its duty, and would mislead
	status["conditions"] = setCondition(status["conditions"], tree{"type": "PodScheduled", "status": "True"})
	for _, part := range []string{"annotations", "labels"} {
		if added := member(sent.Object, "metadata", part); len(added) > 0 {
			maps.Copy(made(pod.Object, "metadata", part), added)
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
func setCondition(conditions any, now tree) []any {
	list, _ := conditions.([]any)
	now["lastProbeTime"], now["lastTransitionTime"] = nil, time.Now().UTC().Format(time.RFC3339)
	for i, item := range list {
		was, _ := item.(tree)
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
