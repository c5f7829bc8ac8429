package custom

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultDefinition fills in the defaults of a CustomResourceDefinition: the
// singular and the list kind, and the conversion strategy. It adds the storage
// version to the stored versions, as upstream's strategy does before it validates:
// so the storage version can be moved. No write, not even one of the status, can
// take the storage version out of that list; upstream lets the status do so.
// It works on the tree, since a large schema is slow to take apart and put together.
func DefaultDefinition(o map[string]any) {
	spec, _ := o["spec"].(map[string]any)
	if spec == nil {
		return
	}
	if names, ok := spec["names"].(map[string]any); ok {
		kind, _ := names["kind"].(string)
		if s, _ := names["singular"].(string); s == "" && kind != "" {
			names["singular"] = strings.ToLower(kind)
		}
		if l, _ := names["listKind"].(string); l == "" && kind != "" {
			names["listKind"] = kind + "List"
		}
	}
	if spec["conversion"] == nil {
		spec["conversion"] = map[string]any{"strategy": string(apiextensionsv1.NoneConverter)}
	}
	defaultPort(spec)
	storage := storageVersion(spec)
	if storage == "" {
		return
	}
	if o["status"] == nil {
		o["status"] = map[string]any{}
	}
	if status, ok := o["status"].(map[string]any); ok {
		if stored, _ := status["storedVersions"].([]any); !slices.Contains(stored, any(storage)) {
			status["storedVersions"] = append(slices.Clip(stored), storage)
		}
	}
}

// defaultWebhookPort is that of a service: apiextensions v1 SetDefaults_ServiceReference.
const defaultWebhookPort = 443

// defaultPort fills in the port of the service that converts the objects.
func defaultPort(spec map[string]any) {
	if service, found, err := unstructured.NestedFieldNoCopy(spec, "conversion", "webhook", "clientConfig",
		"service"); found && err == nil {
		if service, is := service.(map[string]any); is && service["port"] == nil {
			service["port"] = int64(defaultWebhookPort)
		}
	}
}

// storageVersion returns the version marked as such in the spec of a definition.
func storageVersion(spec map[string]any) string {
	versions, _ := spec["versions"].([]any)
	for _, item := range versions {
		v, _ := item.(map[string]any)
		if storage, _ := v["storage"].(bool); storage {
			name, _ := v["name"].(string)
			return name
		}
	}
	return ""
}

// maxVersions bounds the versions of a definition: upstream's validation compares
// each with all others.
const maxVersions = 1000

// CheckDefinition validates a new CustomResourceDefinition with upstream's own
// validation.
func CheckDefinition(crd *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	internal, errs := internalForm(crd)
	if internal == nil {
		return errs
	}
	errs = recovered(func() field.ErrorList { return validation.ValidateCustomResourceDefinition(unhurried{}, internal) })
	return withoutMetadata(errs)
}

// CheckDefinitionUpdate validates the update of a CustomResourceDefinition. When
// the spec is as it was, only the status is checked.
func CheckDefinitionUpdate(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	if equality.Semantic.DeepEqual(crd.Spec, old.Spec) {
		status := &apiextensions.CustomResourceDefinitionStatus{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinitionStatus_To_apiextensions_CustomResourceDefinitionStatus(
			&crd.Status, status, nil); err != nil {
			return field.ErrorList{field.Invalid(field.NewPath("status"), nil, err.Error())}
		}
		return validation.ValidateCustomResourceDefinitionStatus(status, field.NewPath("status"))
	}
	internal, errs := internalForm(crd)
	if internal == nil {
		return errs
	}
	before, errs := internalForm(old)
	if before == nil {
		return errs
	}
	errs = recovered(func() field.ErrorList {
		return validation.ValidateCustomResourceDefinitionUpdate(unhurried{}, internal, before)
	})
	return withoutMetadata(errs)
}

// recovered returns the errors of upstream's validation, which panics on selectable fields
// of a version whose schema is not structural, as with x-kubernetes-preserve-unknown-fields:
// false.
func recovered(validate func() field.ErrorList) (errs field.ErrorList) {
	defer func() {
		if cause := recover(); cause != nil {
			errs = field.ErrorList{field.Invalid(field.NewPath("spec"), nil, fmt.Sprintf("it cannot be validated: %v", cause))}
		}
	}()
	return validate()
}

func internalForm(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, field.ErrorList) {
	if n := len(crd.Spec.Versions); n > maxVersions {
		return nil, field.ErrorList{field.TooMany(field.NewPath("spec", "versions"), n, maxVersions)}
	}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal,
		nil); err != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec"), nil, err.Error())}
	}
	return internal, nil
}

// withoutMetadata drops what the caller checks for every kind: all of metadata
// but the definition's name rule and the approval of protected groups.
func withoutMetadata(errs field.ErrorList) field.ErrorList {
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		own := err.Field == "metadata.name" && err.Type == field.ErrorTypeInvalid ||
			strings.HasPrefix(err.Field, "metadata.annotations["+apiextensionsv1.KubeAPIApprovedAnnotation+"]")
		return strings.HasPrefix(err.Field, "metadata.") && !own
	})
}

// typed reads one field of a tree into a Go struct; a missing one leaves it empty.
func typed(o map[string]any, key string, into any) error {
	part, ok := o[key].(map[string]any)
	if !ok {
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(part, into)
}
