package plugins

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
