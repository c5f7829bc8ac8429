package fieldmanager

import (
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// scales is the type of the subresource scale.
func scales() *schema.Resource {
	return &schema.Resource{Group: "autoscaling", Version: "v1", Kind: "Scale", GoType: reflect.TypeFor[autoscalingv1.Scale]()}
}

// ShowScale writes into the Scale of an object who manages its replicas.
func (m *Managers) ShowScale(t schema.Target, scale, object *unstructured.Unstructured) error {
	entries, err := m.scaleHandler(t, object).ToSubresource()
	if err != nil {
		return kube.Internal(fmt.Errorf("managed fields of the scale: %w", err))
	}
	if len(entries) > 0 {
		scale.SetManagedFields(entries)
	}
	return nil
}

// UpdateScale records in object who manages its replicas after manager has changed its Scale
// from old to scale. ShowScale was called for old.
func (m *Managers) UpdateScale(t schema.Target, object, scale, old *unstructured.Unstructured, manager string) error {
	f, err := m.scale()
	if err != nil {
		return kube.Internal(err)
	}
	f.UpdateNoErrors(old, scale, manager)
	return m.storeScale(t, object, scale.GetManagedFields())
}

// ApplyScale returns the Scale that results from applying a configuration to old, and records
// in object who manages its replicas by then. ShowScale was called for old. Errors: those of
// Apply.
func (m *Managers) ApplyScale(t schema.Target, object, old, config *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	f, err := m.scale()
	if err != nil {
		return nil, kube.Internal(err)
	}
	scale, err := f.apply(old, config, manager, force)
	if err != nil {
		return nil, err
	}
	return scale, m.storeScale(t, object, scale.GetManagedFields())
}

func (m *Managers) storeScale(t schema.Target, object *unstructured.Unstructured, entries []metav1.ManagedFieldsEntry) error {
	stored, err := m.scaleHandler(t, object).ToParent(entries)
	if err != nil {
		return kube.Internal(fmt.Errorf("managed fields of the scaled object: %w", err))
	}
	object.SetManagedFields(stored)
	return nil
}

// scaleHandler translates between the managed fields of an object and those of its Scale.
func (m *Managers) scaleHandler(t schema.Target, object *unstructured.Unstructured) *managedfields.ScaleHandler {
	paths := managedfields.ResourcePathMappings{}
	for _, r := range m.live.Load().Resources() {
		if r.GR() == t.Resource.GR() {
			paths[r.APIVersion()] = replicas(r)
		}
	}
	return managedfields.NewScaleHandler(object.GetManagedFields(), t.Resource.GVK().GroupVersion(), paths)
}

// replicas is the path of a resource's replicas; nil when it has no scale.
func replicas(r *schema.Resource) fieldpath.Path {
	if r.Scale == nil {
		return nil
	}
	parts := make([]any, 0, len(r.Scale.SpecReplicas))
	for _, name := range r.Scale.SpecReplicas {
		parts = append(parts, name)
	}
	return fieldpath.MakePathOrDie(parts...)
}
