package apiregistration

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// The rules of kube-aggregator pkg/apis/apiregistration/validation.

// The highest priorities of a group, and of a version in it.
const (
	maxGroup   = 20000
	maxVersion = 1000
)

// validateAPIService validates a new APIService.
func validateAPIService(o *apiregistrationv1.APIService) field.ErrorList {
	return append(validateName(o), validateSpec(&o.Spec)...)
}

// validateAPIServiceUpdate validates a change: the name cannot, and what it has to be can.
func validateAPIServiceUpdate(o, _ *apiregistrationv1.APIService) field.ErrorList {
	return validateAPIService(o)
}

func validateName(o *apiregistrationv1.APIService) field.ErrorList {
	at := field.NewPath("metadata", "name")
	want := o.Spec.Version + "." + o.Spec.Group
	if o.Name == "" {
		return nil // that it is required is said elsewhere
	}
	if why := content.IsPathSegmentName(o.Name); len(why) > 0 {
		return check.Invalid(at, o.Name, why)
	}
	if o.Name == want {
		return nil
	}
	return field.ErrorList{field.Invalid(at, o.Name, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want))}
}

func validateSpec(spec *apiregistrationv1.APIServiceSpec) field.ErrorList {
	var errs field.ErrorList
	switch {
	case spec.Group != "":
		errs = append(errs, check.Invalid(check.Spec("group"), spec.Group, validation.IsDNS1123Subdomain(spec.Group))...)
	case spec.Version != "v1":
		errs = append(errs,
			field.Required(check.Spec("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	errs = append(errs, check.Invalid(check.Spec("version"), spec.Version, validation.IsDNS1035Label(spec.Version))...)
	if spec.GroupPriorityMinimum <= 0 || spec.GroupPriorityMinimum > maxGroup {
		errs = append(errs, field.Invalid(check.Spec("groupPriorityMinimum"), spec.GroupPriorityMinimum,
			"must be positive and less than 20000"))
	}
	if spec.VersionPriority <= 0 || spec.VersionPriority > maxVersion {
		errs = append(errs, field.Invalid(check.Spec("versionPriority"), spec.VersionPriority,
			"must be positive and less than 1000"))
	}
	if spec.Service == nil {
		return append(errs, validateLocal(spec)...)
	}
	return append(errs, validateService(spec)...)
}

func validateLocal(spec *apiregistrationv1.APIServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if n := len(spec.CABundle); n > 0 {
		errs = append(errs, field.Invalid(check.Spec("caBundle"), fmt.Sprintf("%d bytes", n),
			"local APIServices may not have a caBundle"))
	}
	if spec.InsecureSkipTLSVerify {
		errs = append(errs, field.Invalid(check.Spec("insecureSkipTLSVerify"), true,
			"local APIServices may not have insecureSkipTLSVerify"))
	}
	return errs
}

func validateService(spec *apiregistrationv1.APIServiceSpec) field.ErrorList {
	var errs field.ErrorList
	at := check.Spec("service")
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	port := int32(0)
	if spec.Service.Port != nil {
		port = *spec.Service.Port
	}
	if why := validation.IsValidPortNum(int(port)); why != nil {
		errs = append(errs, field.Invalid(at.Child("port"), port, "port is not valid: "+strings.Join(why, ", ")))
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(check.Spec("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

// validateAPIServiceStatus validates a change of the status.
func validateAPIServiceStatus(o, _ *apiregistrationv1.APIService) field.ErrorList {
	var errs field.ErrorList
	known := []apiregistrationv1.ConditionStatus{
		apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown,
	}
	for i, c := range o.Status.Conditions {
		if !slices.Contains(known, c.Status) {
			at := field.NewPath("status", "conditions").Index(i).Child("status")
			errs = append(errs, field.NotSupported(at, c.Status, known))
		}
	}
	return errs
}
