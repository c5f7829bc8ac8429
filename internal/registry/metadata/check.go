package metadata

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Check applies the rules of all kinds, and the kind's own rule for names; old is
// nil for a creation.
func Check(r *kinds.Resource, u, old *unstructured.Unstructured) field.ErrorList {
	rule := func(name string, prefix bool) []string {
		errs := content.IsPathSegmentName(name)
		if prefix {
			errs = content.IsPathSegmentPrefix(name)
			name = maskTrailingDash(name)
		}
		if len(errs) > 0 || r.ValidName == nil {
			return errs
		}
		return r.ValidName(name)
	}
	bare := bareFinalizers(r, u)
	if len(bare) == 0 && Valid(of(u), r.Namespaced) && len(rule(u.GetName(), false)) == 0 {
		if old == nil || Valid(of(old), r.Namespaced) && ValidUpdate(of(u), of(old)) {
			return nil
		}
	}
	path := field.NewPath("metadata")
	if errs := Flooded(u, path); errs != nil {
		return errs
	}
	errs := append(apivalidation.ValidateObjectMetaAccessor(u, r.Namespaced, rule, path), bare...)
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(u, old, path)...)
	}
	return errs
}

// bareFinalizers refuses finalizers without a domain that are not standard ones, for kinds with
// [kinds.DomainFinalizers].
func bareFinalizers(r *kinds.Resource, u *unstructured.Unstructured) field.ErrorList {
	if r.Finalizers != kinds.DomainFinalizers {
		return nil
	}
	var errs field.ErrorList
	for i, name := range u.GetFinalizers() {
		if strings.Contains(name, "/") ||
			slices.Contains([]string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}, name) {
			continue
		}
		if len(errs) == ShownErrors {
			break // see Flooded
		}
		errs = append(errs,
			field.Invalid(field.NewPath("metadata", "finalizers").Index(i), name,
				"name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

func of(u *unstructured.Unstructured) map[string]any {
	m, _ := u.Object["metadata"].(map[string]any)
	return m
}

// maskTrailingDash makes a generateName fit the rule for names, which do not end with a
// dash (apimachinery validation maskTrailingDash).
func maskTrailingDash(base string) string {
	if len(base) > 1 && strings.HasSuffix(base, "-") {
		return base[:len(base)-2] + "a"
	}
	return base
}
