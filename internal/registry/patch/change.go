package patch

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/wire"
)

// Change is a patch of an object of one resource.
type Change struct {
	Resource   *schema.Resource
	Patch      *Patch
	Validation schema.FieldValidation
}

// Apply returns the patched object, and warnings about it. Errors: those of Patch.Apply, 422.
func (c *Change) Apply(current *wire.Object) (*unstructured.Unstructured, []string, error) {
	patched, problems, err := c.Patch.Apply(current.JSON(), c.Resource.Type.StrategicMerge)
	if err != nil {
		return nil, nil, err
	}
	u, warnings, err := c.Resource.Type.Decode(patched, c.Validation)
	if err == nil && c.Validation == schema.FieldsStrict && len(problems) > 0 {
		err = runtime.NewStrictDecodingError(problems)
	}
	if err != nil {
		return nil, nil, wire.Invalid(schema.GroupVersionKind{}.GroupKind(), "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(patched), err.Error()),
		})
	}
	if c.Validation == schema.FieldsWarn {
		for _, problem := range problems {
			warnings = append(warnings, problem.Error())
		}
	}
	return u, warnings, nil
}
