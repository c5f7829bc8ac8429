package fieldmanager

import (
	"cmp"
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// scales is the type of the subresource scale.
func scales() *kinds.Resource {
	return &kinds.Resource{Group: "autoscaling", Version: "v1", Kind: "Scale", GoType: reflect.TypeFor[autoscalingv1.Scale]()}
}

// Scaled is an object with its Scale.
type Scaled struct {
	Target kinds.Target
	Object *unstructured.Unstructured // gets the managedFields of its next form
	Scale  *unstructured.Unstructured
}

// ShowScale writes into the Scale of an object who manages its replicas.
func (m *Managers) ShowScale(s Scaled) error {
	entries, err := m.scaleHandler(s).ToSubresource()
	if err != nil {
		return wire.Internal(fmt.Errorf("managed fields of the scale: %w", err))
	}
	if len(entries) > 0 {
		s.Scale.SetManagedFields(entries)
	}
	return nil
}

// UpdateScale records in the object who manages its replicas after manager has changed its
// Scale to next. ShowScale was called before.
func (m *Managers) UpdateScale(s Scaled, next *unstructured.Unstructured, manager string) error {
	f, err := m.scale()
	if err != nil {
		return wire.Internal(err)
	}
	f.update(s.Scale, next, cmp.Or(manager, s.Target.Manager))
	return m.storeScale(s, next.GetManagedFields())
}

// ApplyScale returns the Scale that results from applying a configuration, and records in the
// object who manages its replicas by then. ShowScale was called before. Errors: those of Apply.
func (m *Managers) ApplyScale(s Scaled, c Configuration) (*unstructured.Unstructured, error) {
	if !managed(c.Object) {
		return nil, tooLarge()
	}
	f, err := m.scale()
	if err != nil {
		return nil, wire.Internal(err)
	}
	next, err := f.apply(s.Scale, c)
	if err != nil {
		return nil, err
	}
	return next, m.storeScale(s, next.GetManagedFields())
}

func (m *Managers) storeScale(s Scaled, entries []metav1.ManagedFieldsEntry) error {
	stored, err := m.scaleHandler(s).ToParent(entries)
	if err != nil {
		return wire.Internal(fmt.Errorf("managed fields of the scaled object: %w", err))
	}
	s.Object.SetManagedFields(stored)
	return nil
}

// scaleHandler translates between the managed fields of an object and those of its Scale.
func (m *Managers) scaleHandler(s Scaled) *managedfields.ScaleHandler {
	paths := managedfields.ResourcePathMappings{}
	for r := range m.live.Load().All() {
		if r.GR() == s.Target.Resource.GR() {
			paths[r.APIVersion()] = replicas(r)
		}
	}
	return managedfields.NewScaleHandler(s.Object.GetManagedFields(), s.Target.Resource.GVK().GroupVersion(), paths)
}

// replicas is the path of a resource's replicas; nil when it has no scale.
func replicas(r *kinds.Resource) fieldpath.Path {
	if r.Scale == nil {
		return nil
	}
	parts := make([]any, 0, len(r.Scale.SpecReplicas))
	for _, name := range r.Scale.SpecReplicas {
		parts = append(parts, name)
	}
	return fieldpath.MakePathOrDie(parts...)
}
