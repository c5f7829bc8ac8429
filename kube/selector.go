package kube

import (
	"slices"

	"k8s.io/apimachinery/pkg/fields"
)

// The labels that every resource can be selected by.
const (
	fieldName      = "metadata.name"
	fieldNamespace = "metadata.namespace"
)

// CheckFields says with 400 that a field selector uses a label that the resource
// does not support. metadata.name and metadata.namespace always are.
func CheckFields(sel fields.Selector, supported []FieldPath) error {
	for _, r := range sel.Requirements() {
		known := r.Field == fieldName || r.Field == fieldNamespace ||
			slices.ContainsFunc(supported, func(p FieldPath) bool { return p.Label == r.Field })
		if !known {
			return BadRequest("field label not supported: %s", r.Field)
		}
	}
	return nil
}
