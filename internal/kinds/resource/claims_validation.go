package resource

import (
	"reflect"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewClaim validates a new ResourceClaim.
func validateNewClaim(o *resourcev1.ResourceClaim) field.ErrorList {
	return checkClaim(check.Spec("devices"), &o.Spec.Devices)
}

// validateClaimUpdate validates the change of a ResourceClaim from old to o: its spec stays, and its
// status is checked.
func validateClaimUpdate(o, old *resourcev1.ResourceClaim) field.ErrorList {
	errs := check.Unchanged(nil, "spec", o.Spec, old.Spec)
	return append(errs, checkClaimStatus(o, old)...)
}

// validateNewTemplate validates a new ResourceClaimTemplate.
func validateNewTemplate(o *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := checkTemplateMeta(check.Spec("metadata"), &o.Spec.ObjectMeta)
	return append(errs, checkClaim(check.Spec("spec", "devices"), &o.Spec.Spec.Devices)...)
}

// checkTemplateMeta lets the claims of a template have labels and annotations only.
func checkTemplateMeta(at *field.Path, o *metav1.ObjectMeta) field.ErrorList {
	errs := metavalidation.ValidateLabels(o.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(o.Annotations, at.Child("annotations"))...)
	for t, value := range reflect.ValueOf(*o).Fields() {
		if t.Name == "Labels" || t.Name == "Annotations" || value.IsZero() {
			continue
		}
		name := strings.ToLower(t.Name[:1]) + t.Name[1:] // "uID", as upstream
		errs = append(errs, field.Forbidden(at.Child(name), "cannot be set"))
	}
	return errs
}

// validateTemplateUpdate validates the change of a ResourceClaimTemplate from old to o.
func validateTemplateUpdate(o, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := validateNewTemplate(o)
	return append(errs, check.Unchanged(nil, "spec", o.Spec, old.Spec)...)
}

// validateClass validates a DeviceClass.
func validateClass(o *resourcev1.DeviceClass) field.ErrorList {
	errs := each(check.Spec("selectors"), o.Spec.Selectors, resourcev1.DeviceSelectorsMaxSize, checkSelector)
	errs = append(errs, each(check.Spec("config"), o.Spec.Config, resourcev1.DeviceConfigMaxSize,
		func(at *field.Path, c *resourcev1.DeviceClassConfiguration) field.ErrorList {
			return checkConfiguration(at, &c.DeviceConfiguration)
		})...)
	if name := o.Spec.ExtendedResourceName; name != nil && !check.IsExtendedResource(*name) {
		errs = append(errs, field.Invalid(check.Spec("extendedResourceName"), *name, "must be a valid extended resource name"))
	}
	return errs
}

// names are the requests of a claim, with their alternatives.
type names map[string]map[string]bool

func namesOf(claim *resourcev1.DeviceClaim) names {
	all := names{}
	for _, request := range claim.Requests {
		all[request.Name] = map[string]bool{}
		for _, alternative := range request.FirstAvailable {
			all[request.Name][alternative.Name] = true
		}
	}
	return all
}

// reference checks a text that names a request, or a request and one of its alternatives.
func (n names) reference(at *field.Path, text *string) field.ErrorList {
	const why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	parts := strings.Split(*text, "/")
	if len(parts) > 2 {
		return field.ErrorList{field.Invalid(at, *text, why)}
	}
	var errs field.ErrorList
	for _, part := range parts {
		errs = append(errs, label(at, part)...)
	}
	alternatives, known := n[parts[0]]
	if !known || len(parts) == 2 && !alternatives[parts[1]] {
		errs = append(errs, field.Invalid(at, *text, why))
	}
	return errs
}

func checkClaim(at *field.Path, claim *resourcev1.DeviceClaim) field.ErrorList {
	of := namesOf(claim)
	errs := set(listOf(at.Child("requests"), claim.Requests, resourcev1.DeviceRequestsMaxSize), checkRequest,
		func(r *resourcev1.DeviceRequest) string { return r.Name })
	errs = append(errs, each(at.Child("constraints"), claim.Constraints, resourcev1.DeviceConstraintsMaxSize,
		func(at *field.Path, c *resourcev1.DeviceConstraint) field.ErrorList {
			return checkConstraint(at, c, of)
		})...)
	return append(errs, each(at.Child("config"), claim.Config, resourcev1.DeviceConfigMaxSize,
		func(at *field.Path, c *resourcev1.DeviceClaimConfiguration) field.ErrorList {
			errs := texts(at.Child("requests"), c.Requests, resourcev1.DeviceRequestsMaxSize, of.reference)
			return append(errs, checkConfiguration(at, &c.DeviceConfiguration)...)
		})...)
}

func checkConstraint(at *field.Path, c *resourcev1.DeviceConstraint, of names) field.ErrorList {
	errs := texts(at.Child("requests"), c.Requests, resourcev1.DeviceRequestsMaxSize, of.reference)
	for name, attribute := range map[string]*resourcev1.FullyQualifiedName{
		"matchAttribute": c.MatchAttribute, "distinctAttribute": c.DistinctAttribute,
	} {
		if attribute != nil {
			errs = append(errs, fullyQualified(at.Child(name), string(*attribute))...)
		}
	}
	if c.MatchAttribute != nil || c.DistinctAttribute != nil {
		return errs
	}
	return append(errs,
		field.Required(at, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}

// checkConfiguration checks the parameters for a driver.
func checkConfiguration(at *field.Path, c *resourcev1.DeviceConfiguration) field.ErrorList {
	at = at.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := driver(at, c.Opaque.Driver)
	return append(errs, raw(at.Child("parameters"), c.Opaque.Parameters, resourcev1.OpaqueParametersMaxLength)...)
}
