package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateNewEndpoints validates a new Endpoints.
func validateNewEndpoints(o *corev1.Endpoints) field.ErrorList { //nolint:staticcheck // clients may use EndpointSlice; a server serves both
	var errs field.ErrorList
	for i, subset := range o.Subsets {
		at := field.NewPath("subsets").Index(i)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, a := range subset.Addresses {
			errs = append(errs, checkEndpointAddress(at.Child("addresses").Index(j), a.IP, a.Hostname, a.NodeName)...)
		}
		for j, a := range subset.NotReadyAddresses {
			errs = append(errs, checkEndpointAddress(at.Child("notReadyAddresses").Index(j), a.IP, a.Hostname, a.NodeName)...)
		}
		for j, port := range subset.Ports {
			p := at.Child("ports").Index(j)
			if port.Name != "" {
				errs = append(errs, check.Invalid(p.Child("name"), port.Name, validation.IsDNS1123Label(port.Name))...)
			} else if len(subset.Ports) > 1 {
				errs = append(errs, field.Required(p.Child("name"), ""))
			}
			errs = append(errs, check.PortNumber(p.Child("port"), port.Port)...)
			errs = append(errs, check.Protocol(p, "protocol", port.Protocol)...)
			errs = append(errs, check.AppProtocol(p, port.AppProtocol)...)
		}
	}
	return errs
}

// validateEndpointsUpdate validates the change of an Endpoints from old to o. What was stored may stay:
// older rules were weaker.
func validateEndpointsUpdate(o, old *corev1.Endpoints) field.ErrorList { //nolint:staticcheck // as above
	errs := validateNewEndpoints(o)
	if len(errs) > 0 && equality.Semantic.DeepEqual(o.Subsets, old.Subsets) {
		return nil
	}
	return errs
}

func checkEndpointAddress(at *field.Path, ip, host string, node *string) field.ErrorList {
	errs := check.IP(at.Child("ip"), ip, nil)
	if check.ParseIP(ip) == nil { // upstream says it twice
		errs = append(errs, field.Invalid(at.Child("ip"), ip, "must be a valid IP address"))
	}
	errs = append(errs, check.EndpointIP(at.Child("ip"), ip)...)
	if host != "" {
		errs = append(errs, check.Invalid(at.Child("hostname"), host, validation.IsDNS1123Label(host))...)
	}
	if node != nil {
		errs = append(errs, check.Invalid(at.Child("nodeName"), *node, validation.IsDNS1123Subdomain(*node))...)
	}
	return errs
}
