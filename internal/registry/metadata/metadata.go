// Package metadata validates the metadata of objects. It recognizes what is certainly valid, as
// the metadata of most objects is, without the regular expressions and copies of apimachinery's
// validation, which decides on the rest.
// Metadata is a tree here, as decoded from JSON.
package metadata

import (
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Valid reports whether the metadata of an object certainly passes apimachinery's
// ValidateObjectMetaAccessor, besides the rules for names. It knows nothing of owners,
// finalizers and deletion.
func Valid(meta map[string]any, namespaced bool) bool {
	if name, _ := meta["name"].(string); name == "" {
		return false
	}
	if namespace, _ := meta["namespace"].(string); namespaced && !kinds.IsLabel(namespace) {
		return false
	}
	for member, value := range meta {
		switch member {
		case "name", "uid", "creationTimestamp", "resourceVersion":
			if _, is := value.(string); !is {
				return false
			}
		case "namespace":
			if !namespaced {
				return false
			}
		case "generation":
			if n, is := value.(int64); !is || n < 0 {
				return false
			}
		case "labels":
			if !validLabels(value) {
				return false
			}
		case "annotations":
			if !validAnnotations(value) {
				return false
			}
		case "managedFields":
			if !validManagedFields(value) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// ValidUpdate reports whether meta certainly passes apimachinery's
// ValidateObjectMetaAccessorUpdate as what replaces old; both are Valid.
func ValidUpdate(meta, old map[string]any) bool {
	for _, member := range []string{"name", "namespace", "uid", "creationTimestamp"} {
		if meta[member] != old[member] {
			return false
		}
	}
	version, _ := meta["resourceVersion"].(string)
	generation, _ := meta["generation"].(int64)
	before, _ := old["generation"].(int64)
	return version != "" && generation >= before
}

func validLabels(value any) bool {
	labels, is := value.(map[string]any)
	if !is {
		return false
	}
	for key, value := range labels {
		text, is := value.(string)
		if !is || !kinds.IsQualified(key) || text != "" && !kinds.IsLabelValue(text) {
			return false
		}
	}
	return true
}

// validAnnotations does not know keys with capital letters before the slash, which
// apimachinery takes.
func validAnnotations(value any) bool {
	annotations, is := value.(map[string]any)
	if !is {
		return false
	}
	size := 0
	for key, value := range annotations {
		text, is := value.(string)
		if !is || !kinds.IsQualified(key) {
			return false
		}
		size += len(key) + len(text)
	}
	return size <= apivalidation.TotalAnnotationSizeLimitB
}

func validManagedFields(value any) bool {
	entries, is := value.([]any)
	if !is {
		return false
	}
	for _, entry := range entries {
		e, is := entry.(map[string]any)
		manager, named := e["manager"].(string)
		subresource, _ := e["subresource"].(string)
		operation := e["operation"]
		if !is || !named || !isShortText(manager) || len(subresource) > metavalidation.MaxSubresourceNameLength ||
			operation != "Update" && operation != "Apply" || e["fieldsType"] != "FieldsV1" {
			return false
		}
	}
	return true
}

// isShortText reports whether a text is one of printable ASCII that the name of a field
// manager can be.
func isShortText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return len(s) <= metavalidation.FieldManagerMaxLength
}
