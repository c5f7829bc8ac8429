package podrules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// ClaimSpec checks what is claimed: by a claim, or by the template of claims.
func ClaimSpec(at *field.Path, spec *corev1.PersistentVolumeClaimSpec) field.ErrorList {
	errs := check.AccessModes(at.Child("accessModes"), spec.AccessModes, "at least 1 access mode is required")
	errs = append(errs, check.LabelSelector(at.Child("selector"), spec.Selector)...)
	size := at.Child("resources").Key(string(corev1.ResourceStorage))
	if amount, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(size, ""))
	} else if amount.Sign() <= 0 {
		errs = append(errs, field.Invalid(size, amount.String(), "must be greater than zero"))
	}
	for _, class := range []struct {
		field string
		name  *string
	}{{"storageClassName", spec.StorageClassName}, {"volumeAttributesClassName", spec.VolumeAttributesClassName}} {
		if class.name != nil && *class.name != "" {
			errs = append(errs, check.Invalid(at.Child(class.field), *class.name, kinds.SubdomainName(*class.name))...)
		}
	}
	errs = append(errs,
		check.KnownIfSet(at, "volumeMode", spec.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)...)
	return append(errs, checkDataSources(at, spec)...)
}

// checkDataSources checks what a claim's volume starts with. dataSource is the old form
// of dataSourceRef, for objects of the claim's namespace.
func checkDataSources(at *field.Path, spec *corev1.PersistentVolumeClaimSpec) field.ErrorList {
	var errs field.ErrorList
	typed := func(at *field.Path, kind, name string, group *string) {
		errs = append(errs, check.Required(at, "name", name, nil)...)
		errs = append(errs, check.Required(at, "kind", kind, nil)...)
		switch {
		case group != nil && *group != "":
			errs = append(errs, check.Invalid(at.Child("apiGroup"), *group, kinds.SubdomainName(*group))...)
		case kind != "PersistentVolumeClaim":
			errs = append(errs, field.Invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
	}
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		typed(at.Child("dataSource"), source.Kind, source.Name, source.APIGroup)
	}
	if ref == nil {
		return errs
	}
	typed(at.Child("dataSourceRef"), ref.Kind, ref.Name, ref.APIGroup)
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		errs = append(errs,
			check.Invalid(at.Child("dataSourceRef", "namespace"), *ref.Namespace, kinds.LabelName(*ref.Namespace))...)
	}
	switch {
	case source == nil:
	case elsewhere:
		errs = append(errs,
			field.Invalid(at, at.Child("dataSource").String(), "may not be specified when dataSourceRef.namespace is specified"))
	case source.Kind != ref.Kind || source.Name != ref.Name || !equality.Semantic.DeepEqual(source.APIGroup, ref.APIGroup):
		errs = append(errs, field.Invalid(at, at.Child("dataSource").String(), "must match dataSourceRef"))
	}
	return errs
}
