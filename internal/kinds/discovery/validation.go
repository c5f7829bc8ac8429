package discovery

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateEndpointSlice validates what an EndpointSlice has besides its endpoints.
func validateEndpointSlice(o *discoveryv1.EndpointSlice) field.ErrorList {
	errs := check.OneOf(nil, "addressType", o.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4,
		discoveryv1.AddressTypeIPv6)
	names := map[string]bool{}
	for i, port := range o.Ports {
		at := field.NewPath("ports").Index(i)
		if port.Name != nil {
			if *port.Name != "" {
				errs = append(errs, check.Invalid(at.Child("name"), *port.Name, validation.IsDNS1123Label(*port.Name))...)
			}
			if names[*port.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), *port.Name))
			}
			names[*port.Name] = true
		}
		errs = append(errs,
			check.KnownIfSet(at, "protocol", port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		errs = append(errs, check.AppProtocol(at, port.AppProtocol)...)
	}
	return errs
}

// validateNewEndpointSlice validates the endpoints of a new EndpointSlice.
func validateNewEndpointSlice(o *discoveryv1.EndpointSlice) field.ErrorList {
	const maxEndpoints = 1000 // of pkg/apis/discovery/validation
	at := field.NewPath("endpoints")
	if len(o.Endpoints) > maxEndpoints {
		return field.ErrorList{field.TooMany(at, len(o.Endpoints), maxEndpoints)}
	}
	var errs field.ErrorList
	for i := range o.Endpoints {
		errs = append(errs, checkEndpoint(at.Index(i), &o.Endpoints[i], o.AddressType)...)
	}
	return errs
}

func checkEndpoint(at *field.Path, e *discoveryv1.Endpoint, kind discoveryv1.AddressType) field.ErrorList {
	const maxAddresses = 100 // of pkg/apis/discovery/validation
	addresses := at.Child("addresses")
	var errs field.ErrorList
	switch n := len(e.Addresses); {
	case n == 0:
		errs = append(errs, field.Required(addresses, ""))
	case n > maxAddresses:
		errs = append(errs, field.TooMany(addresses, n, maxAddresses))
	}
	for i, address := range e.Addresses {
		errs = append(errs, checkAddress(addresses, i, address, kind)...)
	}
	if e.NodeName != nil {
		errs = append(errs, check.Invalid(at.Child("nodeName"), *e.NodeName, validation.IsDNS1123Subdomain(*e.NodeName))...)
	}
	if e.Hostname != nil {
		errs = append(errs, check.Invalid(at.Child("hostname"), *e.Hostname, validation.IsDNS1123Label(*e.Hostname))...)
	}
	if e.Hints == nil {
		return errs
	}
	var zones, nodes []string
	for _, zone := range e.Hints.ForZones {
		zones = append(zones, zone.Name)
	}
	for _, node := range e.Hints.ForNodes {
		nodes = append(nodes, node.Name)
	}
	errs = append(errs, checkHints(at.Child("hints", "forZones"), zones, validation.IsValidLabelValue)...)
	return append(errs, checkHints(at.Child("hints", "forNodes"), nodes, validation.IsDNS1123Subdomain)...)
}

func checkHints(at *field.Path, names []string, rule func(string) []string) field.ErrorList {
	var errs field.ErrorList
	repeated := check.Repeated(names)
	for i, name := range names {
		p := at.Index(i).Child("name")
		if repeated[i] {
			errs = append(errs, field.Duplicate(p, name))
		}
		errs = append(errs, check.Invalid(p, name, rule(name))...)
	}
	return errs
}

// checkAddress checks the i-th address of an endpoint. Upstream reports one of another
// family at the whole list.
func checkAddress(at *field.Path, i int, address string, kind discoveryv1.AddressType) field.ErrorList {
	if kind == discoveryv1.AddressTypeFQDN {
		return validation.IsFullyQualifiedDomainName(at.Index(i), address)
	}
	if kind != discoveryv1.AddressTypeIPv4 && kind != discoveryv1.AddressTypeIPv6 {
		return nil
	}
	v4 := kind == discoveryv1.AddressTypeIPv4
	errs := check.IP(at.Index(i), address, nil)
	if !v4 { // clients compare them as text
		errs = validation.IsValidIP(at.Index(i), address)
	}
	if len(errs) > 0 {
		return errs
	}
	errs = check.EndpointIP(at.Index(i), address)
	if netutils.IsIPv4String(address) != v4 {
		errs = append(errs, field.Invalid(at, address, "must be an "+string(kind)+" address"))
	}
	return errs
}

// validateEndpointSliceUpdate validates the change of an EndpointSlice from old to o. Endpoints that
// were stored may stay: older rules were weaker.
func validateEndpointSliceUpdate(o, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := validateNewEndpointSlice(o)
	if len(errs) > 0 && equality.Semantic.DeepEqual(o.Endpoints, old.Endpoints) {
		errs = nil
	}
	return append(errs, check.Unchanged(nil, "addressType", o.AddressType, old.AddressType)...)
}
