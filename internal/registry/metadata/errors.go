package metadata

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Invalid is 422 for the errors of an object, those of its metadata and others; nil without
// errors.
func Invalid(r *schema.Resource, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return kube.Invalid(r.GVK().GroupKind(), name, distinct(errs))
}

// distinct removes duplicate errors: a type checks its names too. It compares only the
// first thousand, which is more than the answer shows (kube.Invalid).
func distinct(errs field.ErrorList) field.ErrorList {
	const compared = 1000
	seen := map[string]bool{}
	kept := errs[:0]
	for i, err := range errs {
		if i == compared {
			return append(kept, errs[i:]...)
		}
		if text := err.Error(); !seen[text] {
			seen[text] = true
			kept = append(kept, err)
		}
	}
	return kept
}
