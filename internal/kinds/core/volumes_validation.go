package core

import (
	"path"
	"slices"
	"strings"

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
	errs := check.AccessModes(check.Spec("accessModes"), spec.AccessModes, "")
	if len(spec.Capacity) == 0 {
		errs = append(errs, field.Required(check.Spec("capacity"), ""))
	}
	if _, ok := spec.Capacity[corev1.ResourceStorage]; !ok || len(spec.Capacity) > 1 {
		errs = append(errs,
			field.NotSupported(check.Spec("capacity"), spec.Capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for name, amount := range spec.Capacity {
		at := check.Spec("capacity").Key(string(name))
		if amount.Value() < 0 {
			errs = append(errs, field.Invalid(at, amount.Value(), "must be a valid resource quantity"))
		}
		if amount.Sign() <= 0 {
			errs = append(errs, field.Invalid(at, amount.String(), "must be greater than zero"))
		}
	}
	errs = append(errs, check.OneOfIfSet(check.Spec(), "persistentVolumeReclaimPolicy", spec.PersistentVolumeReclaimPolicy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain)...)
	switch names := check.SourceNames(spec.PersistentVolumeSource); {
	case len(names) == 0:
		errs = append(errs, field.Required(check.Spec(), "must specify a volume type"))
	case len(names) > 1:
		errs = append(errs, severalSources(names)...)
	default:
		errs = append(errs, volumerules.OfVolume(check.Spec(), &spec.PersistentVolumeSource, o.Name)...)
	}
	errs = append(errs,
		check.KnownIfSet(check.Spec(), "volumeMode", spec.VolumeMode, corev1.PersistentVolumeBlock,
			corev1.PersistentVolumeFilesystem)...)
	if class := spec.StorageClassName; class != "" {
		errs = append(errs, check.Invalid(check.Spec("storageClassName"), class, validation.IsDNS1123Subdomain(class))...)
	}
	errs = append(errs, checkAttributes(spec)...)
	if spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" &&
		spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(check.Spec("persistentVolumeReclaimPolicy"),
			"may not be 'recycle' for a hostPath mount of '/'"))
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

// checkAttributes checks the name of a class of attributes, which only volumes of CSI drivers have.
func checkAttributes(spec *corev1.PersistentVolumeSpec) field.ErrorList {
	class := spec.VolumeAttributesClassName
	if class == nil {
		return nil
	}
	errs := check.Required(check.Spec(), "volumeAttributesClassName", *class, validation.IsDNS1123Subdomain)
	if spec.CSI == nil {
		errs = append(errs,
			field.Required(check.Spec("csi"), "has to be specified when using volumeAttributesClassName"))
	}
	return errs
}

// severalSources refuses all sources of a volume but the first one, in upstream's order and with its name of one. It says
// nothing about flexVolume.
func severalSources(names []string) field.ErrorList {
	order := []string{
		"hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte", "cephfs",
		"iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
		"azureDisk", "scaleIO", "local", "storageos", "csi",
	}
	slices.SortFunc(names, func(a, b string) int { return slices.Index(order, a) - slices.Index(order, b) })
	var errs field.ErrorList
	for _, name := range names[1:] {
		switch name {
		case "flexVolume":
			continue
		case "cephfs":
			name = "cephFS"
		}
		errs = append(errs, field.Forbidden(check.Spec(name), "may not specify more than 1 volume type"))
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
	if old.Spec.NodeAffinity != nil && !equality.Semantic.DeepEqual(o.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), o.Spec.NodeAffinity,
			check.Immutable+", except for updating from beta label to GA"))
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
	// Upstream's path is not below the spec.
	errs := check.Unchanged(nil, "volumeMode", o.Spec.VolumeMode, old.Spec.VolumeMode)
	spec, before := o.Spec.DeepCopy(), &old.Spec
	if before.VolumeName == "" {
		spec.VolumeName = ""
	}
	if before.StorageClassName == nil {
		spec.StorageClassName = nil
	}
	now, was := spec.Resources.Requests[corev1.ResourceStorage], before.Resources.Requests[corev1.ResourceStorage]
	if now.Cmp(was) < 0 && now.Cmp(old.Status.Capacity[corev1.ResourceStorage]) <= 0 {
		errs = append(errs,
			field.Forbidden(check.Spec("resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	if old.Status.Phase == corev1.ClaimBound {
		spec.Resources.Requests = before.Resources.Requests
		spec.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if equality.Semantic.DeepEqual(spec, before) {
		return errs
	}
	return append(errs, field.Forbidden(check.Spec(), "spec is immutable after creation except resources.requests and "+
		"volumeAttributesClassName for bound claims"))
}

// validateClaimStatus validates the amounts in the status of a claim.
func validateClaimStatus(o, _ *corev1.PersistentVolumeClaim) field.ErrorList {
	var errs field.ErrorList
	for name, amount := range o.Status.Capacity {
		if amount.Value() < 0 {
			errs = append(errs, field.Invalid(field.NewPath("status", "capacity").Key(string(name)), amount.Value(),
				"must be a valid resource quantity"))
		}
	}
	at := field.NewPath("status", "allocatedResourceStatuses")
	known := []corev1.ClaimResourceStatus{
		corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
		corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress,
		corev1.PersistentVolumeClaimNodeResizeInfeasible,
	}
	slices.Sort(known)
	for name, status := range o.Status.AllocatedResourceStatuses {
		errs = append(errs, claimedResource(at, name)...)
		if !slices.Contains(known, status) { // upstream prints the name
			errs = append(errs, field.NotSupported(at, corev1.ClaimResourceStatus(name), known))
		}
	}
	at = field.NewPath("status", "allocatedResources")
	for name, amount := range o.Status.AllocatedResources {
		switch wrong := claimedResource(at, name); {
		case len(wrong) > 0:
			errs = append(errs, wrong...)
		case amount.Value() < 0:
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.Value(), "must be a valid resource quantity"))
		}
	}
	return errs
}

// claimedResource checks the name of what a claim can have an amount of.
func claimedResource(at *field.Path, name corev1.ResourceName) field.ErrorList {
	if errs := check.Invalid(at, string(name), validation.IsQualifiedName(string(name))); len(errs) > 0 {
		return errs
	}
	native := !strings.Contains(string(name), "/") || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	if native && name != corev1.ResourceStorage {
		return field.ErrorList{field.NotSupported(at, string(name), []corev1.ResourceName{corev1.ResourceStorage})}
	}
	return nil
}
