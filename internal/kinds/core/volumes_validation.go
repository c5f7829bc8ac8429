package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
	"github.com/gapless-io/gapless/internal/kinds/volumerules"
)

// validatePersistentVolume validates a PersistentVolume.
func validatePersistentVolume(o *corev1.PersistentVolume) field.ErrorList {
	spec := &o.Spec
	errs := check.AccessModes(check.Spec("accessModes"), spec.AccessModes)
	if len(spec.Capacity) == 0 {
		errs = append(errs, field.Required(check.Spec("capacity"), ""))
	}
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		errs = append(errs,
			field.NotSupported(check.Spec("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, amount := range spec.Capacity {
		if amount.Sign() <= 0 {
			errs = append(errs,
				field.Invalid(check.Spec("capacity").Key(string(name)), amount.String(), "must be greater than zero"))
		}
	}
	errs = append(errs, check.OneOfIfSet(check.Spec(), "persistentVolumeReclaimPolicy", spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	switch n := check.Sources(spec.PersistentVolumeSource); {
	case n == 0:
		errs = append(errs, field.Required(check.Spec(), "must specify a volume type"))
	case n > 1:
		errs = append(errs, field.Forbidden(check.Spec(), "may not specify more than 1 volume type"))
	default:
		errs = append(errs, volumerules.OfVolume(check.Spec(), &spec.PersistentVolumeSource, o.Name)...)
	}
	errs = append(errs,
		check.KnownIfSet(check.Spec(), "volumeMode", spec.VolumeMode, corev1.PersistentVolumeBlock,
			corev1.PersistentVolumeFilesystem)...)
	if class := spec.StorageClassName; class != "" {
		errs = append(errs, check.Invalid(check.Spec("storageClassName"), class, validation.IsDNS1123Subdomain(class))...)
	}
	at := check.Spec("nodeAffinity")
	switch affinity := spec.NodeAffinity; {
	case affinity == nil && spec.Local != nil:
		errs = append(errs, field.Required(at, "Local volume requires node affinity"))
	case affinity == nil:
	case affinity.Required == nil:
		errs = append(errs, field.Required(at.Child("required"), "must specify required node constraints"))
	default:
		errs = append(errs, podrules.NodeSelector(at.Child("required"), affinity.Required)...)
	}
	return errs
}

// validatePersistentVolumeUpdate validates the change of a PersistentVolume: of its source, only
// the secret for growing it may be added.
func validatePersistentVolumeUpdate(o, old *corev1.PersistentVolume) field.ErrorList {
	var errs field.ErrorList
	now, was := o.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if now.CSI != nil && was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil {
		csi := *now.CSI
		csi.ControllerExpandSecretRef = nil
		now.CSI = &csi
	}
	if !equality.Semantic.DeepEqual(now, was) {
		errs = append(errs,
			field.Forbidden(check.Spec("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	// Upstream's paths are not below the spec.
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, check.Unchanged(nil, "nodeAffinity", o.Spec.NodeAffinity, old.Spec.NodeAffinity)...)
	}
	return append(errs, check.Unchanged(nil, "volumeMode", o.Spec.VolumeMode, old.Spec.VolumeMode)...)
}

// validatePersistentVolumeClaim validates a PersistentVolumeClaim.
func validatePersistentVolumeClaim(o *corev1.PersistentVolumeClaim) field.ErrorList {
	return podrules.ClaimSpec(check.Spec(), &o.Spec)
}

// validatePersistentVolumeClaimUpdate validates the change of a claim: it may be bound, and grow
// once it is.
func validatePersistentVolumeClaimUpdate(o, old *corev1.PersistentVolumeClaim) field.ErrorList {
	spec, before := o.Spec.DeepCopy(), &old.Spec
	if before.VolumeName == "" {
		spec.VolumeName = ""
	}
	if before.StorageClassName == nil {
		spec.StorageClassName = nil
	}
	bound := old.Status.Phase == corev1.ClaimBound
	if bound {
		now, was := spec.Resources.Requests[corev1.ResourceStorage], before.Resources.Requests[corev1.ResourceStorage]
		if now.Cmp(was) < 0 && now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
			return field.ErrorList{
				field.Forbidden(check.Spec("resources", "requests", "storage"), "field can not be less than status.capacity"),
			}
		}
		spec.Resources.Requests = before.Resources.Requests
		spec.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if equality.Semantic.DeepEqual(spec, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(check.Spec(), fmt.Sprintf(
		"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "+
			"claims (this claim is %s)", claimPhase(old.Status.Phase)))}
}

func claimPhase(p corev1.PersistentVolumeClaimPhase) string {
	if p == "" {
		return string(corev1.ClaimPending)
	}
	return string(p)
}
