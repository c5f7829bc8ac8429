package kinds

import (
	"slices"

	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/wire"
)

// CheckFields says with 400 that a field selector uses a label that the resource does not support:
// one that is not of [Resource.Fields], an alias, or a field of all objects. The texts are those of
// upstream's conversion functions, which most built-in kinds do not have.
func (r *Resource) CheckFields(sel fields.Selector) error {
	own := r.Custom || len(r.Fields) > 0 // the kind has a function of its own
	for _, required := range sel.Requirements() {
		switch label := required.Field; {
		case label == "metadata.name":
		case label == "metadata.namespace" && (!own || r.Namespaced && !r.NoNamespaceField):
		case slices.ContainsFunc(r.Fields, func(p wire.FieldPath) bool { return p.Label == label }):
		case r.hasAlias(label):
		case !own:
			return wire.BadRequest(`%q is not a known field selector: only "metadata.name", "metadata.namespace"`, label)
		default:
			return wire.BadRequest("field label not supported: %s", label)
		}
	}
	return nil
}

func (r *Resource) hasAlias(label string) bool {
	_, has := r.FieldAliases[label]
	return has
}
