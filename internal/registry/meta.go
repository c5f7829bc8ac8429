package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/internal/schema/jsontree"
	"github.com/gapless-io/gapless/kube"
)

// treeOf decodes an object.
func treeOf(o *kube.Object) (*unstructured.Unstructured, error) {
	tree, err := jsontree.Decode(o.JSON())
	if err != nil {
		return nil, kube.Internal(fmt.Errorf("decode the stored object: %w", err))
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

// keyOf is the key of a target's object.
func keyOf(t schema.Target) kube.Key {
	if !t.Resource.Namespaced {
		return kube.Key{Name: t.Name}
	}
	return kube.Key{Namespace: t.Namespace, Name: t.Name}
}

// matchNamespace fills in the namespace of the request, or refuses another one
// (apiserver rest.EnsureObjectNamespaceMatchesRequestNamespace).
func matchNamespace(t schema.Target, u *unstructured.Unstructured) error {
	expected := keyOf(t).Namespace
	switch u.GetNamespace() {
	case expected:
	case "":
		u.SetNamespace(expected)
	default:
		if expected != "" {
			return kube.BadRequest("the namespace of the provided object does not match the namespace sent on the request")
		}
		u.SetNamespace("")
	}
	return nil
}

// matchName refuses an update whose body names another object than its path
// (apiserver handlers.checkName).
func matchName(t schema.Target, u *unstructured.Unstructured) error {
	if u.GetName() == "" {
		return kube.BadRequest("the name of the object (%s based on URL) was undeterminable: name must be provided", t.Name)
	}
	if u.GetName() != t.Name {
		return kube.BadRequest("the name of the object (%s) does not match the name on the URL (%s)", u.GetName(), t.Name)
	}
	return nil
}

// matchPath is matchName with the namespace. A patch checks the namespace by
// matchNamespace, which has another text.
func matchPath(t schema.Target, u *unstructured.Unstructured) error {
	if err := matchName(t, u); err != nil {
		return err
	}
	if ns := u.GetNamespace(); t.Namespace != "" && ns != "" && ns != t.Namespace {
		return kube.BadRequest("the namespace of the object (%s) does not match the namespace on the request (%s)", ns, t.Namespace)
	}
	return nil
}

// encodeStored encodes an object in the version in which it is stored. managed are its
// managedFields, as JSON, if it does not have them itself.
func encodeStored(r *schema.Resource, u *unstructured.Unstructured, managed []byte) ([]byte, error) {
	tree := maps.Clone(r.Store(u.Object))
	tree["apiVersion"] = r.Home().APIVersionOf(r.Home().StorageVersion)
	tree["kind"] = r.Kind
	value, err := kube.CanonicalManaged(tree, managed)
	if err != nil {
		return nil, kube.BadRequest("%v", err) // the body of the request cannot be encoded
	}
	return value, nil
}

// checkMetadata applies the rules of all kinds, and the kind's own rule for names; old is
// nil for a creation.
func checkMetadata(r *schema.Resource, u, old *unstructured.Unstructured) field.ErrorList {
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
	if len(bare) == 0 && metadata.Valid(metadataOf(u), r.Namespaced) && len(rule(u.GetName(), false)) == 0 {
		if old == nil || metadata.Valid(metadataOf(old), r.Namespaced) && metadata.ValidUpdate(metadataOf(u), metadataOf(old)) {
			return nil
		}
	}
	path := field.NewPath("metadata")
	if errs := metadata.Flooded(u, path); errs != nil {
		return errs
	}
	errs := append(apivalidation.ValidateObjectMetaAccessor(u, r.Namespaced, rule, path), bare...)
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(u, old, path)...)
	}
	return errs
}

// bareFinalizers refuses finalizers without a domain that are not standard ones. Upstream
// does so where it validates metadata with its own function for built-in kinds (core
// validation.ValidateObjectMeta), which five of them do not use.
func bareFinalizers(r *schema.Resource, u *unstructured.Unstructured) field.ErrorList {
	if r.Custom || slices.Contains([]string{"CustomResourceDefinition", "Event", "Lease", "PodDisruptionBudget", "RuntimeClass"}, r.Kind) {
		return nil
	}
	var errs field.ErrorList
	for i, name := range u.GetFinalizers() {
		if strings.Contains(name, "/") || slices.Contains([]string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}, name) {
			continue
		}
		if len(errs) == metadata.ShownErrors {
			break // see metadata.Flooded
		}
		errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), name, "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

func metadataOf(u *unstructured.Unstructured) map[string]any {
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

// invalid is 422 for the errors of an object; nil without errors.
func invalid(r *schema.Resource, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return kube.Invalid(r.GVK().GroupKind(), name, distinct(errs))
}

// invalidOptions is 422 for the options of a write; nil when errs is empty.
func invalidOptions(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return kube.Invalid(metav1.SchemeGroupVersion.WithKind(kind).GroupKind(), "", errs)
}

// validation is the option fieldValidation with its default.
func validation(option string) schema.FieldValidation {
	if option == "" {
		return schema.FieldsWarn
	}
	return schema.FieldValidation(option)
}
