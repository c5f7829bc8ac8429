package networking

import (
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// addressName returns the problems of the name of an IPAddress, which is the address.
func addressName(name string) []string {
	var why []string
	for _, err := range validation.IsValidIP(&field.Path{}, name) {
		why = append(why, err.Detail)
	}
	return why
}

// validateIPAddress validates an IPAddress.
func validateIPAddress(o *networkingv1.IPAddress) field.ErrorList {
	at, ref := check.Spec("parentRef"), o.Spec.ParentRef
	if ref == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if ref.Group != "" { // that of services is ""
		errs = append(errs, check.Invalid(at.Child("group"), ref.Group, validation.IsDNS1123Subdomain(ref.Group))...)
	}
	errs = append(errs, check.Required(at, "resource", ref.Resource, content.IsPathSegmentName)...)
	errs = append(errs, check.Required(at, "name", ref.Name, content.IsPathSegmentName)...)
	if ref.Namespace != "" {
		errs = append(errs, check.Invalid(at.Child("namespace"), ref.Namespace, content.IsPathSegmentName(ref.Namespace))...)
	}
	return errs
}

// validateIPAddressUpdate validates the change of an IPAddress from old to o.
func validateIPAddressUpdate(o, old *networkingv1.IPAddress) field.ErrorList {
	return check.Unchanged(check.Spec(), "parentRef", o.Spec.ParentRef, old.Spec.ParentRef)
}

// validateNewServiceCIDR validates a new ServiceCIDR.
func validateNewServiceCIDR(o *networkingv1.ServiceCIDR) field.ErrorList {
	at, ranges := check.Spec("cidrs"), o.Spec.CIDRs
	if len(ranges) == 0 {
		return field.ErrorList{field.Required(at, "at least one CIDR required")}
	}
	if len(ranges) > 2 {
		return field.ErrorList{field.Invalid(at, o.Spec, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, text := range ranges {
		errs = append(errs, validation.IsValidCIDR(at.Index(i), text)...)
	}
	if len(ranges) == 2 && family(ranges[0]) == family(ranges[1]) && family(ranges[0]) != 0 {
		errs = append(errs,
			field.Invalid(at, ranges, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
	}
	return errs
}

// family is the version of IP of a range; 0 if it is none.
func family(text string) int {
	ip := check.ParseCIDR(text)
	switch {
	case ip == nil:
		return 0
	case ip.To4() != nil:
		return 4
	}
	return 6
}

// validateServiceCIDRUpdate validates the change of a ServiceCIDR: a range of the other family of
// addresses may be added.
func validateServiceCIDRUpdate(o, old *networkingv1.ServiceCIDR) field.ErrorList {
	at, now, was := check.Spec("cidrs"), o.Spec.CIDRs, old.Spec.CIDRs
	added := len(was) == 1 && len(now) == 2
	if slices.Equal(now, was) {
		return nil
	}
	if len(now) != len(was) && !added {
		return field.ErrorList{field.Invalid(at, now, check.Immutable)}
	}
	var errs field.ErrorList
	for i, text := range was {
		if now[i] != text {
			errs = append(errs, field.Invalid(at.Index(i), now[i], check.Immutable))
		}
	}
	if added {
		errs = append(errs, validateNewServiceCIDR(o)...)
	}
	return errs
}
