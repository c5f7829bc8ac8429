package validation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/pods"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/volumes"
)

// StorageClass validates a StorageClass.
func StorageClass(o *storagev1.StorageClass) field.ErrorList {
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

// StorageClassUpdate validates the change of a StorageClass from old to o.
func StorageClassUpdate(o, old *storagev1.StorageClass) field.ErrorList {
	errs := check.Unchanged(nil, "parameters", o.Parameters, old.Parameters)
	errs = append(errs, check.Unchanged(nil, "provisioner", o.Provisioner, old.Provisioner)...)
	errs = append(errs, check.Unchanged(nil, "reclaimPolicy", o.ReclaimPolicy, old.ReclaimPolicy)...)
	return append(errs, check.Unchanged(nil, "volumeBindingMode", o.VolumeBindingMode, old.VolumeBindingMode)...)
}

// PersistentVolume validates a PersistentVolume.
func PersistentVolume(o *corev1.PersistentVolume) field.ErrorList {
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
		errs = append(errs, volumes.OfVolume(check.Spec(), &spec.PersistentVolumeSource, o.Name)...)
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
		errs = append(errs, pods.NodeSelector(at.Child("required"), affinity.Required)...)
	}
	return errs
}

// PersistentVolumeUpdate validates the change of a PersistentVolume: of its source, only
// the secret for growing it may be added.
func PersistentVolumeUpdate(o, old *corev1.PersistentVolume) field.ErrorList {
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

// PersistentVolumeClaim validates a PersistentVolumeClaim.
func PersistentVolumeClaim(o *corev1.PersistentVolumeClaim) field.ErrorList {
	return pods.ClaimSpec(check.Spec(), &o.Spec)
}

// PersistentVolumeClaimUpdate validates the change of a claim: it may be bound, and grow
// once it is.
func PersistentVolumeClaimUpdate(o, old *corev1.PersistentVolumeClaim) field.ErrorList {
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
			"claims (this claim is %s)", phase(old.Status.Phase)))}
}

func phase(p corev1.PersistentVolumeClaimPhase) string {
	if p == "" {
		return string(corev1.ClaimPending)
	}
	return string(p)
}
