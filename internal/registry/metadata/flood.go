package metadata

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// manyNames is how many names are validated as a whole: if each has errors, that takes
	// less than a megabyte.
	manyNames = 1000
	// ShownErrors is how many errors of an object are enough: wire.Invalid shows that many.
	ShownErrors = 100
)

// Flooded returns a hundred errors or more of metadata with so many names that are
// invalid, otherwise nil. Apimachinery's validation holds up to three errors for each of
// the names, of which a body of 3 MiB has half a million. What is invalid besides the
// names is left out.
func Flooded(meta metav1.Object, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	flooded := func(more field.ErrorList) bool {
		errs = append(errs, more...)
		return len(errs) >= ShownErrors
	}
	if names := meta.GetFinalizers(); len(names) > manyNames {
		for _, name := range names {
			if flooded(apivalidation.ValidateFinalizerName(name, path.Child("finalizers"))) {
				return errs
			}
		}
	}
	if labels := meta.GetLabels(); len(labels) > manyNames {
		for key, value := range labels {
			if flooded(metavalidation.ValidateLabels(map[string]string{key: value}, path.Child("labels"))) {
				return errs
			}
		}
	}
	if annotations := meta.GetAnnotations(); len(annotations) > manyNames {
		for key := range annotations {
			if flooded(apivalidation.ValidateAnnotations(map[string]string{key: ""}, path.Child("annotations"))) {
				return errs
			}
		}
	}
	return nil
}
