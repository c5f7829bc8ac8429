package storage

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/volumerules"
)

// validateCSIDriver validates a CSIDriver.
func validateCSIDriver(o *storagev1.CSIDriver) field.ErrorList {
	var errs field.ErrorList
	for _, mode := range o.Spec.VolumeLifecycleModes {
		errs = append(errs,
			check.Known(check.Spec(), "volumeLifecycleModes", mode, storagev1.VolumeLifecyclePersistent,
				storagev1.VolumeLifecycleEphemeral)...)
	}
	errs = append(errs, check.KnownIfSet(check.Spec(), "fsGroupPolicy", o.Spec.FSGroupPolicy,
		storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	audiences := map[string]bool{}
	if p := o.Spec.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < 10 {
		errs = append(errs,
			field.Invalid(check.Spec("nodeAllocatableUpdatePeriodSeconds"), *p, "must be greater than or equal to 10 seconds"))
	}
	for i, request := range o.Spec.TokenRequests {
		// 10 minutes, as for the tokens of pods.
		if seconds := request.ExpirationSeconds; seconds != nil && (*seconds < 600 || *seconds > 1<<32) {
			errs = append(errs, field.Invalid(check.Spec("tokenRequests").Index(i).Child("expirationSeconds"), *seconds,
				"may not specify a duration less than 10 minutes, or larger than 2^32 seconds"))
		}
		at := check.Spec("tokenRequests").Index(i).Child("audience")
		if audiences[request.Audience] {
			errs = append(errs, field.Duplicate(at, request.Audience))
		}
		audiences[request.Audience] = true
	}
	return errs
}

// validateCSIDriverUpdate validates the change of a CSIDriver from old to o.
func validateCSIDriverUpdate(o, old *storagev1.CSIDriver) field.ErrorList {
	// Upstream's path has the name of no field.
	errs := check.Unchanged(check.Spec(), "attachedRequired", o.Spec.AttachRequired, old.Spec.AttachRequired)
	return append(errs,
		check.Unchanged(check.Spec(), "volumeLifecycleModes", o.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes)...)
}

// maxNodeID is csiNodeIDMaxLength of pkg/apis/storage/validation.
const maxNodeID = 256

// validateCSINode validates a CSINode.
func validateCSINode(o *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, driver := range o.Spec.Drivers {
		at := check.Spec("drivers").Index(i)
		errs = append(errs, check.Driver(at, "name", driver.Name)...)
		errs = append(errs, check.Required(at, "nodeID", driver.NodeID, nil)...)
		if len(driver.NodeID) > maxNodeID {
			errs = append(errs, field.Invalid(at.Child("nodeID"), driver.NodeID, "must be 256 characters or less"))
		}
		if driver.Allocatable != nil {
			errs = append(errs, check.NotNegative(at.Child("allocatable"), "count", driver.Allocatable.Count)...)
		}
		repeated := check.Repeated(driver.TopologyKeys)
		for j, key := range driver.TopologyKeys {
			errs = append(errs, check.Required(at, "", key, nil)...)
			errs = append(errs, check.Invalid(at, key, validation.IsQualifiedName(key))...)
			if repeated[j] {
				errs = append(errs, field.Duplicate(at, key))
			}
		}
		if seen[driver.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), driver.Name))
		}
		seen[driver.Name] = true
	}
	return errs
}

// validateCSINodeUpdate validates the change of a CSINode: drivers may be added and removed, and
// change how many volumes they can attach.
func validateCSINodeUpdate(o, old *storagev1.CSINode) field.ErrorList {
	before := map[string]storagev1.CSINodeDriver{}
	for _, driver := range old.Spec.Drivers {
		before[driver.Name] = driver
	}
	for _, driver := range o.Spec.Drivers {
		was, known := before[driver.Name]
		was.Allocatable, driver.Allocatable = nil, nil
		if known && !equality.Semantic.DeepEqual(driver, was) {
			return field.ErrorList{field.Invalid(check.Spec("drivers"), driver.Name, check.Immutable)}
		}
	}
	return nil
}

// validateVolumeAttachment validates a VolumeAttachment.
func validateVolumeAttachment(o *storagev1.VolumeAttachment) field.ErrorList {
	errs := check.Driver(check.Spec(), "attacher", o.Spec.Attacher)
	errs = append(errs, check.Invalid(check.Spec("nodeName"), o.Spec.NodeName, validation.IsDNS1123Subdomain(o.Spec.NodeName))...)
	at := check.Spec("source")
	inline, name := o.Spec.Source.InlineVolumeSpec, o.Spec.Source.PersistentVolumeName
	switch {
	case inline == nil && name == nil:
		errs = append(errs, field.Required(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case inline != nil && name != nil:
		errs = append(errs, field.Forbidden(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil && *name == "":
		errs = append(errs, field.Required(at.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	case inline != nil:
		errs = append(errs, checkInline(at.Child("inlineVolumeSpec"), inline)...)
	}
	if name != nil {
		errs = append(errs, check.Invalid(at.Child("persistentVolumeName"), *name, validation.IsDNS1123Subdomain(*name))...)
	}
	return errs
}

// checkInline checks a volume that has no object of its own.
func checkInline(at *field.Path, spec *corev1.PersistentVolumeSpec) field.ErrorList {
	errs := check.AccessModes(at.Child("accessModes"), spec.AccessModes, "")
	if spec.CSI == nil {
		errs = append(errs, field.Required(at.Child("csi"), "has to be specified in the context of inline volumes"))
		if check.Sources(spec.PersistentVolumeSource) == 0 {
			errs = append(errs, field.Required(at, "must specify a volume type"))
		}
		return errs
	}
	return append(errs, volumerules.CSI(at.Child("csi"), spec.CSI)...)
}

// validateVolumeAttachmentUpdate validates the change of a VolumeAttachment from old to o.
func validateVolumeAttachmentUpdate(o, old *storagev1.VolumeAttachment) field.ErrorList {
	if equality.Semantic.DeepEqual(o.Spec, old.Spec) {
		return nil
	}
	return field.ErrorList{field.Invalid(check.Spec(), o.Spec, "field is immutable")}
}
