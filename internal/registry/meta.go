package registry

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// treeOf decodes an object.
func treeOf(o *wire.Object) (*unstructured.Unstructured, error) {
	tree, err := jsontree.Decode(o.JSON())
	if err != nil {
		return nil, wire.Internal(fmt.Errorf("decode the stored object: %w", err))
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

// shownTree decodes an object as a resource shows it. Errors: those of Show.
func (r *Registry) shownTree(
	ctx context.Context, resource *kinds.Resource, o *wire.Object,
) (*unstructured.Unstructured, error) {
	shown, err := r.Show(ctx, resource, o)
	if err != nil {
		return nil, err
	}
	return treeOf(shown)
}

// encodeStored encodes an object in the version in which it is stored. managed are its
// managedFields, as JSON, if it does not have them itself.
func encodeStored(r *kinds.Resource, u *unstructured.Unstructured, managed []byte) ([]byte, error) {
	tree := maps.Clone(r.Store(u.Object))
	tree["apiVersion"] = r.Home().APIVersionOf(r.Home().StorageVersion)
	tree["kind"] = r.Kind
	value, err := wire.CanonicalManaged(tree, managed)
	if err != nil {
		return nil, wire.BadRequest("%v", err) // the body of the request cannot be encoded
	}
	return value, nil
}

func metadataOf(u *unstructured.Unstructured) map[string]any {
	m, _ := u.Object["metadata"].(map[string]any)
	return m
}

// invalidOptions is 422 for the options of a write; nil when errs is empty.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return wire.Invalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}

// validation is the option fieldValidation with its default.
func validation(option string) kinds.FieldValidation {
	if option == "" {
		return kinds.FieldsWarn
	}
	return kinds.FieldValidation(option)
}
