package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateStorageClass validates a StorageClass.
func validateStorageClass(o *storagev1.StorageClass) field.ErrorList {
	at := field.NewPath("provisioner")
	var errs field.ErrorList
	if name := strings.ToLower(o.Provisioner); name == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, check.Invalid(at, name, validation.IsQualifiedName(name))...)
	}
	if o.ReclaimPolicy != nil {
		errs = append(errs, check.OneOfIfSet(nil, "reclaimPolicy", *o.ReclaimPolicy,
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	for i, term := range o.AllowedTopologies {
		errs = append(errs, checkTopology(field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions"), term)...)
	}
	return append(errs, check.KnownIfSet(nil, "volumeBindingMode", o.VolumeBindingMode,
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
}

func checkTopology(at *field.Path, term corev1.TopologySelectorTerm) field.ErrorList {
	var errs field.ErrorList
	keys := map[string]bool{}
	for i, r := range term.MatchLabelExpressions {
		p := at.Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(r.Key, p.Child("key"))...)
		if keys[r.Key] {
			errs = append(errs, field.Duplicate(p.Child("key"), r.Key))
		}
		keys[r.Key] = true
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(p.Child("values"), ""))
		}
		repeated := check.Repeated(r.Values)
		for j, value := range r.Values {
			if repeated[j] {
				errs = append(errs, field.Duplicate(p.Child("values").Index(j), value))
			}
		}
	}
	return errs
}

// validateStorageClassUpdate validates the change of a StorageClass from old to o.
func validateStorageClassUpdate(o, old *storagev1.StorageClass) field.ErrorList {
	errs := check.Unchanged(nil, "parameters", o.Parameters, old.Parameters)
	errs = append(errs, check.Unchanged(nil, "provisioner", o.Provisioner, old.Provisioner)...)
	errs = append(errs, check.Unchanged(nil, "reclaimPolicy", o.ReclaimPolicy, old.ReclaimPolicy)...)
	return append(errs, check.Unchanged(nil, "volumeBindingMode", o.VolumeBindingMode, old.VolumeBindingMode)...)
}
