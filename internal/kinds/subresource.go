package kinds

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Subresource is a part of an object, or an action on it, with a path of its own. Status
// and scale are not Subresources.
type Subresource struct {
	Name string
	// Verbs in the order of discovery: "get", "patch" and "update", or "create".
	Verbs []string
	// Kind is the kind of its bodies.
	Kind GroupVersionKind
	// Body decodes bodies that are not objects of the resource, and GoType is their struct
	// of k8s.io/api; nil otherwise.
	Body   Type
	GoType reflect.Type
	// Question is the resource, in no catalog, whose objects are bodies and answers of the
	// subresource: it is asked and answered at once, as reviews are. It is nil for others.
	Question *Resource
	// Apply returns the new object for a body and the current object. It may reuse parts of
	// both, and changes nothing else of them. Its errors are *wire.StatusError. It is nil
	// when the subresource does more than change the object.
	Apply func(sent, old *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// SameGeneration says that its changes do not increase metadata.generation.
	SameGeneration bool
	// Check replaces Type.Validate; nil: nothing is checked.
	Check func(u, old *unstructured.Unstructured) field.ErrorList
}

// Subresource returns a subresource other than status and scale; nil if the resource does
// not have it.
func (r *Resource) Subresource(name string) *Subresource {
	i := slices.IndexFunc(r.Subresources, func(s Subresource) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Subresources[i]
}

// BodyType returns the type that decodes a body for a target.
func (t Target) BodyType() Type {
	if sub := t.Resource.Subresource(t.Subresource); sub != nil && sub.Body != nil {
		return sub.Body
	}
	return t.Resource.Type
}
