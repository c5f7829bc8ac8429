package storagemigration

import (
	"strings"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateStorageVersionMigration validates a StorageVersionMigration.
func validateStorageVersionMigration(o *migrationv1.StorageVersionMigration) field.ErrorList {
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

// validateStorageVersionMigrationUpdate validates the change of a StorageVersionMigration: what it
// migrates stays, and so does its result.
func validateStorageVersionMigrationUpdate(o, old *migrationv1.StorageVersionMigration) field.ErrorList {
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
