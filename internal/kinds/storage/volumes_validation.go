package storage

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateCSIStorageCapacity validates a CSIStorageCapacity.
func validateCSIStorageCapacity(o *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := check.LabelSelector(field.NewPath("nodeTopology"), o.NodeTopology)
	errs = append(errs,
		check.Invalid(field.NewPath("storageClassName"), o.StorageClassName,
			validation.IsDNS1123Subdomain(o.StorageClassName))...)
	if o.Capacity != nil && o.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), o.Capacity.String(), "must be greater than or equal to 0"))
	}
	return errs
}

// validateCSIStorageCapacityUpdate validates the change of a CSIStorageCapacity from old to o.
func validateCSIStorageCapacityUpdate(o, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := check.Unchanged(nil, "nodeTopology", o.NodeTopology, old.NodeTopology)
	return append(errs, check.Unchanged(nil, "storageClassName", o.StorageClassName, old.StorageClassName)...)
}

// The bounds of the parameters of a class (pkg/apis/storage/validation).
const (
	maxParameters    = 512
	maxParameterSize = 256 << 10
)

// validateVolumeAttributesClass validates a VolumeAttributesClass.
func validateVolumeAttributesClass(o *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if name := strings.ToLower(o.DriverName); name == "" {
		errs = append(errs, field.Required(field.NewPath("driverName"), ""))
	} else {
		errs = append(errs, check.Invalid(field.NewPath("driverName"), name, validation.IsQualifiedName(name))...)
	}
	errs = append(errs, checkParameters(o.Parameters)...)
	if len(o.Parameters) == 0 {
		errs = append(errs, field.Required(field.NewPath("parameters"), "must contain at least one key/value pair"))
	}
	return errs
}

// checkParameters checks the parameters of a class.
func checkParameters(parameters map[string]string) field.ErrorList {
	at, size := field.NewPath("parameters"), 0
	if len(parameters) > maxParameters {
		return field.ErrorList{field.TooLong(at, "", maxParameters)}
	}
	var errs field.ErrorList
	for key, value := range parameters {
		if key == "" {
			errs = append(errs, field.Invalid(at, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(at, "", maxParameterSize))
	}
	return errs
}

// validateVolumeAttributesClassUpdate validates the change of a VolumeAttributesClass from old to o.
func validateVolumeAttributesClassUpdate(o, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if o.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !equality.Semantic.DeepEqual(o.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}
