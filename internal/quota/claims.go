package quota

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/gapless-io/gapless/internal/kinds"
)

// ofClass is between the name of a StorageClass and that of a resource of its claims.
const ofClass = ".storageclass.storage.k8s.io/"

func claimCount() corev1.ResourceName {
	return countOf(kinds.GroupResource{Resource: "persistentvolumeclaims"})
}

// volumeClaims are measured by what they request.
type volumeClaims struct{}

func (volumeClaims) matches(name corev1.ResourceName) bool {
	if name == claimCount() || name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage {
		return true
	}
	return strings.HasSuffix(string(name), ofClass+string(corev1.ResourcePersistentVolumeClaims)) ||
		strings.HasSuffix(string(name), ofClass+string(corev1.ResourceRequestsStorage))
}

func (volumeClaims) item(decode func(any) error) (Item, error) {
	var c volumeClaim
	err := decode(&c.PersistentVolumeClaim)
	return c, err
}

// volumeClaim is a PersistentVolumeClaim.
type volumeClaim struct{ corev1.PersistentVolumeClaim }

// Missing implements Item.
func (volumeClaim) Missing([]corev1.ResourceName) error { return nil }

// InScope implements Item.
func (c volumeClaim) InScope(s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	return attributes(c.attributeClasses()).InScope(s)
}

// attributes are the names of the VolumeAttributesClasses of a claim, by any of which a scope may select it.
type attributes []string

// InScope implements scopes.
func (names attributes) InScope(s corev1.ScopedResourceSelectorRequirement) (bool, error) {
	if s.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
		return false, nil
	}
	if s.Operator == corev1.ScopeSelectorOpExists {
		return len(names) > 0, nil
	}
	selector, err := selectorOf(s)
	if err != nil {
		return false, fmt.Errorf("failed to parse and convert selector: %w", err) // upstream's text
	}
	if len(names) == 0 {
		return selector.Matches(labels.Set{}), nil
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return selector.Matches(labels.Set{string(s.ScopeName): name})
	}), nil
}

func (c volumeClaim) attributeClasses() []string {
	var names []string
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names = append(names, *name)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names = append(names, m.TargetVolumeAttributesClassName)
	}
	return names
}

// Usage implements Item: the claim, and what it requests, or more if that was allocated, in whole bytes.
func (c volumeClaim) Usage() corev1.ResourceList {
	used := corev1.ResourceList{corev1.ResourcePersistentVolumeClaims: number(1), claimCount(): number(1)}
	class := c.Annotations[corev1.BetaStorageClassAnnotation]
	if _, named := c.Annotations[corev1.BetaStorageClassAnnotation]; !named && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if class != "" {
		used[corev1.ResourceName(class+ofClass+string(corev1.ResourcePersistentVolumeClaims))] = number(1)
	}
	size, requests := c.Spec.Resources.Requests[corev1.ResourceStorage]
	if !requests {
		return used
	}
	if allocated, has := c.Status.AllocatedResources[corev1.ResourceStorage]; has && allocated.Cmp(size) > 0 {
		size = allocated
	}
	size = wholeBytes(size)
	used[corev1.ResourceRequestsStorage] = size
	if class != "" {
		used[corev1.ResourceName(class+ofClass+string(corev1.ResourceRequestsStorage))] = size
	}
	return used
}

func wholeBytes(q resource.Quantity) resource.Quantity {
	if rounded := q.DeepCopy(); !rounded.RoundUp(0) {
		return rounded
	}
	return q
}

// selectorOf returns a scope as the selector of a label of the scope's name.
func selectorOf(s corev1.ScopedResourceSelectorRequirement) (labels.Selector, error) {
	var op selection.Operator
	switch s.Operator {
	case corev1.ScopeSelectorOpIn:
		op = selection.In
	case corev1.ScopeSelectorOpNotIn:
		op = selection.NotIn
	case corev1.ScopeSelectorOpExists:
		op = selection.Exists
	case corev1.ScopeSelectorOpDoesNotExist:
		op = selection.DoesNotExist
	default:
		return nil, fmt.Errorf("%q is not a valid scope selector operator", s.Operator) // upstream's text
	}
	r, err := labels.NewRequirement(string(s.ScopeName), op, s.Values)
	if err != nil {
		return nil, err
	}
	return labels.NewSelector().Add(*r), nil
}
