package metadata

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Invalid is 422 for the errors of an object, those of its metadata and others; nil without
// errors. The group is that of the kind as it is stored, as upstream's: its rules are of the internal type.
func Invalid(r *kinds.Resource, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return wire.Invalid(r.Home().GVK().GroupKind(), name, distinct(errs))
}

// distinct removes duplicate errors: a type checks its names too. It compares only the
// first thousand, and up to a MiB of texts: each can have a whole list. That is more than the
// answer shows (wire.Invalid).
func distinct(errs field.ErrorList) field.ErrorList {
	const compared, comparedBytes = 1000, 1 << 20
	seen, bytes := map[string]bool{}, 0
	kept := errs[:0]
	for i, err := range errs {
		if i == compared || bytes > comparedBytes {
			return append(kept, errs[i:]...)
		}
		text := err.Error()
		bytes += len(text)
		if !seen[text] {
			seen[text] = true
			kept = append(kept, err)
		}
	}
	return kept
}
