package patch

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Change is a patch of an object of one resource.
type Change struct {
	Resource   *kinds.Resource
	Patch      *Patch
	Validation kinds.FieldValidation
}

// Apply returns the patched object, and warnings about it. Errors: those of Patch.Apply, 422.
func (c *Change) Apply(current *wire.Object) (*unstructured.Unstructured, []string, error) {
	patched, problems, err := c.Patch.Apply(current.JSON(), c.Resource.Type.StrategicMerge)
	if err != nil {
		return nil, nil, err
	}
	u, warnings, err := c.Resource.Type.Decode(patched, c.Validation)
	if err == nil && c.Validation == kinds.FieldsStrict && len(problems) > 0 {
		err = runtime.NewStrictDecodingError(problems)
	}
	if err != nil {
		return nil, nil, wire.Invalid(kinds.GroupVersionKind{}.GroupKind(), "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(patched), err.Error()),
		})
	}
	if c.Validation == kinds.FieldsWarn {
		for _, problem := range problems {
			warnings = append(warnings, problem.Error())
		}
	}
	return u, warnings, nil
}
