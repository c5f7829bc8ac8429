package registry

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// treeOf decodes an object.
func treeOf(o *kube.Object) (*unstructured.Unstructured, error) {
	var tree map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(o.JSON(), &tree); err != nil {
		return nil, kube.Internal(fmt.Errorf("decode the stored object: %w", err))
	}
	return &unstructured.Unstructured{Object: tree}, nil
}

// metadata returns the object's metadata, and makes it when it is missing.
func metadata(u *unstructured.Unstructured) map[string]any {
	meta, is := u.Object["metadata"].(map[string]any)
	if !is {
		meta = map[string]any{}
		u.Object["metadata"] = meta
	}
	return meta
}

// now is the time as metadata has it.
func now() metav1.Time { return metav1.NewTime(time.Now().UTC().Truncate(time.Second)) }

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
		delete(metadata(u), "namespace")
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
	if ns := u.GetNamespace(); t.Namespace != "" && ns != "" && ns != t.Namespace {
		return kube.BadRequest("the namespace of the object (%s) does not match the namespace on the request (%s)", ns, t.Namespace)
	}
	return nil
}

// wipe removes what only the server sets (apiserver
// rest.WipeObjectMetaSystemFields), and managedFields: this server does not track
// who owns which field.
func wipe(meta map[string]any) {
	for _, name := range []string{
		"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
		"generation", "managedFields", "resourceVersion",
	} {
		delete(meta, name)
	}
}

// born sets what an object gets at its creation.
func born(r *schema.Resource, meta map[string]any) {
	meta["uid"] = string(uuid.NewUUID())
	meta["creationTimestamp"] = now().Format(time.RFC3339)
	if hasGeneration(r) {
		meta["generation"] = int64(1)
	}
}

// hasGeneration says whether objects of a kind count the changes of what is asked
// for: custom resources, and built-in kinds with a spec.
func hasGeneration(r *schema.Resource) bool {
	if r.Custom || r.GoType == nil {
		return true
	}
	_, has := r.GoType.FieldByName("Spec")
	return has
}

// keep carries over from the old metadata what an update cannot change.
func keep(meta, old map[string]any) {
	for _, name := range []string{"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"} {
		if value, has := old[name]; has {
			meta[name] = value
		} else {
			delete(meta, name)
		}
	}
	if uid, _ := meta["uid"].(string); uid == "" {
		meta["uid"] = old["uid"]
	}
	delete(meta, "selfLink")
	delete(meta, "managedFields")
}

// advance adds one to the generation when an update changed anything but metadata
// and, with a status subresource, the status.
func advance(r *schema.Resource, u, old *unstructured.Unstructured) error {
	if !hasGeneration(r) {
		return nil
	}
	is, err := desired(r, u.Object)
	if err != nil {
		return err
	}
	was, err := desired(r, old.Object)
	if err != nil {
		return err
	}
	if !bytes.Equal(is, was) {
		metadata(u)["generation"] = old.GetGeneration() + 1
	}
	return nil
}

// desired encodes the part of an object that its generation counts.
func desired(r *schema.Resource, tree map[string]any) ([]byte, error) {
	part := maps.Clone(tree)
	for _, name := range []string{"apiVersion", "kind", "metadata"} {
		delete(part, name)
	}
	if r.HasStatus {
		delete(part, "status")
	}
	return encode(part)
}

// encode is kube.Canonical for trees that came from outside.
func encode(tree map[string]any) ([]byte, error) {
	value, err := kube.Canonical(tree)
	if err != nil {
		return nil, kube.BadRequest("%v", err)
	}
	return value, nil
}

// encodeStored encodes an object in the version in which it is stored.
func encodeStored(r *schema.Resource, u *unstructured.Unstructured) ([]byte, error) {
	tree := maps.Clone(u.Object)
	tree["apiVersion"] = schema.GroupVersionKind{Group: r.Group, Version: r.StorageVersion}.GroupVersion().String()
	tree["kind"] = r.Kind
	return encode(tree)
}

// checkMetadata applies the rules of all kinds, and the kind's own rule for names.
func checkMetadata(r *schema.Resource, u *unstructured.Unstructured) field.ErrorList {
	rule := func(name string, prefix bool) []string {
		errs := content.IsPathSegmentName(name)
		if prefix {
			errs = content.IsPathSegmentPrefix(name)
			name = unfinished(name)
		}
		if len(errs) > 0 || r.ValidName == nil {
			return errs
		}
		return r.ValidName(name)
	}
	return apivalidation.ValidateObjectMetaAccessor(u, r.Namespaced, rule, field.NewPath("metadata"))
}

// unfinished makes a generateName checkable by the rule for names: the dash at its
// end will not be the end (apimachinery validation maskTrailingDash).
func unfinished(base string) string {
	if len(base) > 1 && strings.HasSuffix(base, "-") {
		return base[:len(base)-2] + "a"
	}
	return base
}

// distinct drops errors that are there twice: a type checks its names too.
func distinct(errs field.ErrorList) field.ErrorList {
	seen := map[string]bool{}
	kept := errs[:0]
	for _, err := range errs {
		if text := err.Error(); !seen[text] {
			seen[text] = true
			kept = append(kept, err)
		}
	}
	return kept
}

// invalid is 422 for what is wrong with an object; nil for nothing.
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

// How names are generated: apiserver pkg/storage/names, apimachinery util/rand.
const (
	generatedBase   = 58
	generatedSuffix = 5
	nameLetters     = "bcdfghjklmnpqrstvwxz2456789"
)

// generateName makes a name of a base and five letters.
func generateName(base string) string {
	if len(base) > generatedBase {
		base = base[:generatedBase]
	}
	suffix := make([]byte, 0, generatedSuffix)
	// The largest multiple of the number of letters that a byte can be below.
	const fair = 256 / len(nameLetters) * len(nameLetters)
	var random [16]byte
	for len(suffix) < generatedSuffix {
		_, _ = rand.Read(random[:]) // never fails (crypto/rand)
		for _, b := range random {
			if int(b) < fair && len(suffix) < generatedSuffix {
				suffix = append(suffix, nameLetters[int(b)%len(nameLetters)])
			}
		}
	}
	return base + string(suffix)
}
