package plugins

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Spec returns the spec of an object, which the caller may change; it is made if there is none. Errors: 400 for one
// that is no object, which the rules of its kind have not seen yet.
func Spec(u *unstructured.Unstructured) (map[string]any, error) {
	switch spec := u.Object["spec"].(type) {
	case map[string]any:
		return spec, nil
	case nil:
		made := map[string]any{}
		u.Object["spec"] = made
		return made, nil
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec is a %T: want an object", spec))
	}
}

// Text returns a string of an object; "" if there is none.
func Text(in map[string]any, name string) string {
	text, _ := in[name].(string)
	return text
}

// As decodes an object into a struct of its kind. Errors: 400 for one that is of another form, which the rules of its
// kind have not seen yet.
func As(u *unstructured.Unstructured, into any) error {
	if u == nil {
		return apierrors.NewBadRequest("there is no object")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
