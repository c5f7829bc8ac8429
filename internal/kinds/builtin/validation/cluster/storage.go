package cluster

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
)

// CSIStorageCapacity validates a CSIStorageCapacity.
func CSIStorageCapacity(o *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := check.LabelSelector(field.NewPath("nodeTopology"), o.NodeTopology)
	errs = append(errs,
		check.Invalid(field.NewPath("storageClassName"), o.StorageClassName,
			validation.IsDNS1123Subdomain(o.StorageClassName))...)
	if o.Capacity != nil && o.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), o.Capacity.String(), "must be greater than or equal to 0"))
	}
	return errs
}

// CSIStorageCapacityUpdate validates the change of a CSIStorageCapacity from old to o.
func CSIStorageCapacityUpdate(o, old *storagev1.CSIStorageCapacity) field.ErrorList {
	errs := check.Unchanged(nil, "nodeTopology", o.NodeTopology, old.NodeTopology)
	return append(errs, check.Unchanged(nil, "storageClassName", o.StorageClassName, old.StorageClassName)...)
}

// The bounds of the parameters of a class (pkg/apis/storage/validation).
const (
	maxParameters    = 512
	maxParameterSize = 256 << 10
)

// VolumeAttributesClass validates a VolumeAttributesClass.
func VolumeAttributesClass(o *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if name := strings.ToLower(o.DriverName); name == "" {
		errs = append(errs, field.Required(field.NewPath("driverName"), ""))
	} else {
		errs = append(errs, check.Invalid(field.NewPath("driverName"), name, validation.IsQualifiedName(name))...)
	}
	at, size := field.NewPath("parameters"), 0
	if len(o.Parameters) > maxParameters {
		return append(errs, field.TooLong(at, "", maxParameters))
	}
	for key, value := range o.Parameters {
		if key == "" {
			errs = append(errs, field.Invalid(at, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(at, "", maxParameterSize))
	}
	if len(o.Parameters) == 0 {
		errs = append(errs, field.Required(at, "must contain at least one key/value pair"))
	}
	return errs
}

// VolumeAttributesClassUpdate validates the change of a VolumeAttributesClass from old to o.
func VolumeAttributesClassUpdate(o, old *storagev1.VolumeAttributesClass) field.ErrorList {
	var errs field.ErrorList
	if o.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !equality.Semantic.DeepEqual(o.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}

// StorageVersionMigration validates a StorageVersionMigration.
func StorageVersionMigration(o *migrationv1.StorageVersionMigration) field.ErrorList {
	at, of := check.Spec("resource"), o.Spec.Resource
	var errs field.ErrorList
	if of.Resource == "" {
		errs = append(errs, field.Required(at.Child("resource"), "resource is required to be set"))
	} else if why := validation.IsDNS1035Label(of.Resource); len(why) > 0 {
		errs = append(errs, field.Invalid(at.Child("resource"), of.Resource, strings.Join(why, ",")))
	}
	if of.Group == "" {
		return errs
	}
	if why := validation.IsDNS1123Subdomain(of.Group); len(why) > 0 {
		errs = append(errs, field.Invalid(at.Child("group"), of.Group, strings.Join(why, ",")))
	}
	return errs
}

// StorageVersionMigrationUpdate validates the change of a StorageVersionMigration: what it
// migrates stays, and so does its result.
func StorageVersionMigrationUpdate(o, old *migrationv1.StorageVersionMigration) field.ErrorList {
	errs := check.Unchanged(nil, "spec", o.Spec, old.Spec)
	if equality.Semantic.DeepEqual(o.Status, old.Status) {
		return errs
	}
	version, before := o.Status.ResourceVersion, old.Status.ResourceVersion
	at := field.NewPath("status", "resourceVersion")
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			errs = append(errs, field.Invalid(at, version, err.Error()))
		}
	}
	conditions := field.NewPath("status", "conditions")
	errs = append(errs, metavalidation.ValidateConditions(o.Status.Conditions, conditions)...)
	if before != "" && version != before {
		errs = append(errs, field.Invalid(at, version, "field is immutable"))
	}
	is := func(s migrationv1.StorageVersionMigrationStatus, kind migrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(s.Conditions, string(kind))
	}
	if is(o.Status, migrationv1.MigrationSucceeded) && is(o.Status, migrationv1.MigrationFailed) {
		errs = append(errs,
			field.Invalid(conditions, o.Status.Conditions, "Both success and failed conditions cannot be true at the same time"))
	}
	if is(old.Status, migrationv1.MigrationSucceeded) && !is(o.Status, migrationv1.MigrationSucceeded) {
		errs = append(errs,
			field.Invalid(conditions, o.Status.Conditions, "Success condition cannot be set to false once it is true"))
	}
	if is(old.Status, migrationv1.MigrationFailed) && !is(o.Status, migrationv1.MigrationFailed) {
		errs = append(errs,
			field.Invalid(conditions, o.Status.Conditions, "Failed condition cannot be set to false once it is true"))
	}
	return errs
}
