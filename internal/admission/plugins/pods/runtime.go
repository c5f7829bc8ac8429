package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// RuntimeClasses returns the table of RuntimeClasses for RuntimeClass.
func RuntimeClasses() *plugins.Table[nodev1.RuntimeClass] {
	return plugins.NewTable[nodev1.RuntimeClass](kinds.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclasses"}, nil)
}

// RuntimeClass is upstream's plugin of this name: new pods get the overhead, the node selector and the tolerations of
// their class, and may claim no other overhead.
func RuntimeClass(classes *plugins.Table[nodev1.RuntimeClass]) plugins.Plugin {
	p := runtimeClass{classes}
	return plugins.Plugin{
		Name:     "RuntimeClass",
		Concerns: []plugins.Concern{{Resource: pods, Operations: []upstream.Operation{upstream.Create}}},
		Admit:    p.admit, Validate: p.validate,
	}
}

type runtimeClass struct {
	classes *plugins.Table[nodev1.RuntimeClass]
}

// of returns the class of a pod; nil if it names none.
func (p runtimeClass) of(w *plugins.Write, spec map[string]any) (*nodev1.RuntimeClass, error) {
	name, is := spec["runtimeClassName"].(string)
	if !is {
		return nil, nil //nolint:nilnil // it names none
	}
	class, err := p.classes.Get(wire.Key{Name: name})
	if err != nil {
		return nil, fmt.Errorf("read the RuntimeClass %s: %w", name, err)
	}
	if class == nil {
		return nil, upstream.NewForbidden(w, fmt.Errorf("pod rejected: RuntimeClass %q not found", name))
	}
	return class, nil
}

func (p runtimeClass) admit(_ context.Context, w *plugins.Write) error {
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	class, err := p.of(w, spec)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		sent, err := overheadOf(spec)
		if err != nil {
			return err
		}
		if len(sent) > 0 && !equality.Semantic.DeepEqual(class.Overhead.PodFixed, sent) {
			return mismatch(w)
		}
		fixed := map[string]any{}
		for name, quantity := range class.Overhead.PodFixed {
			fixed[string(name)] = quantity.String()
		}
		spec["overhead"] = fixed
		w.Changed()
	}
	if class.Scheduling != nil {
		return schedule(w, spec, class.Scheduling)
	}
	return nil
}

// schedule merges what a class says of nodes into a pod.
func schedule(w *plugins.Write, spec map[string]any, of *nodev1.Scheduling) error {
	selector, _ := spec["nodeSelector"].(map[string]any)
	if selector == nil {
		selector = map[string]any{}
	}
	for key, value := range of.NodeSelector {
		if sent, has := selector[key]; has && sent != value {
			return upstream.NewForbidden(w, fmt.Errorf(
				"conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, sent))
		}
		selector[key] = value
	}
	if len(selector) > 0 {
		spec["nodeSelector"] = selector
	}
	merged, err := mergeTolerations(spec, of.Tolerations)
	if err != nil {
		return err
	}
	if len(merged) > 0 {
		spec["tolerations"] = merged
	}
	w.Changed()
	return nil
}

func (p runtimeClass) validate(_ context.Context, w *plugins.Write) error {
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	class, err := p.of(w, spec)
	if err != nil {
		return err
	}
	if class == nil || class.Overhead == nil {
		if spec["overhead"] != nil {
			return upstream.NewForbidden(w, fmt.Errorf( //nolint:err113 // upstream's text
				"pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"))
		}
		return nil
	}
	sent, err := overheadOf(spec)
	if err != nil {
		return err
	}
	if !equality.Semantic.DeepEqual(class.Overhead.PodFixed, sent) {
		return mismatch(w)
	}
	return nil
}

func mismatch(w *plugins.Write) error {
	return upstream.NewForbidden(w, fmt.Errorf("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
}

func overheadOf(spec map[string]any) (corev1.ResourceList, error) {
	part := map[string]any{}
	if sent, is := spec["overhead"]; is {
		part["overhead"] = sent
	}
	var pod corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(part, &pod); err != nil {
		return nil, fmt.Errorf("read the overhead of the pod: %w", err)
	}
	return pod.Overhead, nil
}
