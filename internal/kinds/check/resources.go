package check

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Amounts checks the names and amounts of resources.
func Amounts(at *field.Path, amounts corev1.ResourceList) field.ErrorList {
	var errs field.ErrorList
	for name, amount := range amounts {
		if why := kinds.QualifiedName(string(name)); len(why) > 0 {
			errs = append(errs, Invalid(at.Key(string(name)), string(name), why)...)
		}
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(), "must be greater than or equal to 0"))
		}
	}
	return errs
}

// AccessModes checks the access modes of a volume or a claim; missing is what upstream says where there are none.
func AccessModes(at *field.Path, modes []corev1.PersistentVolumeAccessMode, missing string) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, missing)}
	}
	var errs field.ErrorList
	alone, shared := false, false
	for _, mode := range modes {
		alone = alone || mode == corev1.ReadWriteOncePod
		shared = shared || mode != corev1.ReadWriteOncePod
		errs = append(errs,
			Known(at, "", mode, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)...)
	}
	if alone && shared {
		errs = append(errs, field.Forbidden(at, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

// Driver requires the name of a CSI driver.
func Driver(at *field.Path, name, driver string) field.ErrorList {
	const longest = 63 // ValidateCSIDriverName of pkg/apis/core/validation
	if driver == "" {
		return field.ErrorList{field.Required(at.Child(name), "")}
	}
	errs := Invalid(at.Child(name), driver, validation.IsDNS1123Subdomain(strings.ToLower(driver)))
	if len(driver) > longest {
		errs = append(errs, field.TooLong(at.Child(name), "", longest))
	}
	return errs
}
