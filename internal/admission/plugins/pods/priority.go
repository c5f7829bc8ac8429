// Package pods has admission plugins that complete pods from what the cluster has.
package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/plugins"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// The resources that plugins look at.
var (
	pods            = kinds.GroupResource{Resource: "pods"}                                           //nolint:gochecknoglobals // a name
	priorityClasses = kinds.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"} //nolint:gochecknoglobals // a name
)

// PriorityClasses returns the table of PriorityClasses for Priority. Its best one is the global default: of several,
// which a race can make, the one of the lowest value.
func PriorityClasses() *plugins.Table[schedulingv1.PriorityClass] {
	return plugins.NewTable(priorityClasses, func(a, b *schedulingv1.PriorityClass) bool {
		if b == nil {
			return a.GlobalDefault
		}
		return a.Value < b.Value || a.Value == b.Value && a.Name < b.Name
	})
}

// PriorityName is the name of Priority.
const PriorityName = "Priority"

// Priority is upstream's plugin of this name: it gives new pods the priority and the preemption policy of their class,
// and keeps both in updates; and there can be one class for pods without one.
func Priority(classes *plugins.Table[schedulingv1.PriorityClass]) plugins.Plugin {
	lower := corev1.PreemptLowerPriority
	p := priority{classes, &schedulingv1.PriorityClass{PreemptionPolicy: &lower}}
	return plugins.Plugin{
		Name: PriorityName,
		Concerns: []plugins.Concern{
			{Resource: pods, Operations: []upstream.Operation{upstream.Create, upstream.Update}},
			{Resource: priorityClasses, Operations: []upstream.Operation{upstream.Create, upstream.Update}},
		},
		Admit:    p.admit,
		Validate: p.validate,
	}
}

type priority struct {
	classes *plugins.Table[schedulingv1.PriorityClass]
	none    *schedulingv1.PriorityClass // that of pods without one
}

func (p priority) admit(_ context.Context, w *plugins.Write) error {
	if w.GetResource().Resource != pods.Resource {
		return nil
	}
	spec, err := plugins.Spec(w.Object)
	if err != nil {
		return err
	}
	if w.GetOperation() == upstream.Update {
		keep(w, spec)
		return nil
	}
	class, err := p.classOf(w, plugins.Text(spec, "priorityClassName"))
	if err != nil {
		return err
	}
	value, policy := int64(class.Value), ""
	if class.PreemptionPolicy != nil {
		policy = string(*class.PreemptionPolicy)
	}
	if sent, is := spec["priority"].(int64); is && sent != value {
		return upstream.NewForbidden(w, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
			"priority admission controller computed %d from the given PriorityClass name", sent, value))
	}
	if sent, is := spec["preemptionPolicy"].(string); is && policy != "" && sent != policy {
		return upstream.NewForbidden(w, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
			"priority admission controller computed %s from the given PriorityClass name", sent, policy))
	}
	set(spec, "priorityClassName", class.Name)
	set(spec, "preemptionPolicy", policy)
	spec["priority"] = value
	return nil
}

// keep gives an update what an older client has left out.
func keep(w *plugins.Write, spec map[string]any) {
	old, _ := w.Old.Object["spec"].(map[string]any)
	for _, name := range []string{"priority", "preemptionPolicy"} {
		if before, has := old[name]; has && spec[name] == nil {
			spec[name] = before
		}
	}
}

func set(spec map[string]any, name, value string) {
	if value != "" {
		spec[name] = value
	}
}

// classOf returns the class of a name, or the global default.
func (p priority) classOf(w *plugins.Write, name string) (*schedulingv1.PriorityClass, error) {
	if name == "" {
		if class, err := p.classes.Best(); class != nil || err != nil {
			return class, err
		}
		return p.none, nil
	}
	class, err := p.classes.Get(wire.Key{Name: name})
	if err != nil {
		return nil, fmt.Errorf("failed to resolve PriorityClass with name %s: %w", name, err)
	}
	if class == nil {
		return nil, upstream.NewForbidden(w, fmt.Errorf("no PriorityClass with name %v was found", name))
	}
	return class, nil
}

func (p priority) validate(_ context.Context, w *plugins.Write) error {
	if w.GetResource().Resource != priorityClasses.Resource {
		return nil
	}
	if global, _ := w.Object.Object["globalDefault"].(bool); !global {
		return nil
	}
	class, err := p.classes.Best()
	if err != nil {
		return fmt.Errorf("failed to get default priority class: %w", err)
	}
	if class == nil || w.GetOperation() == upstream.Update && class.Name == w.Object.GetName() {
		return nil
	}
	return upstream.NewForbidden(w, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist",
		class.Name))
}
