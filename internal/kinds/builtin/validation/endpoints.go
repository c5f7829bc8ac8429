package validation

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/check"
)

// NewEndpoints validates a new Endpoints.
func NewEndpoints(o *corev1.Endpoints) field.ErrorList { //nolint:staticcheck // clients may use EndpointSlice; a server serves both
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
			errs = append(errs, appProtocol(p, port.AppProtocol)...)
		}
	}
	return errs
}

// EndpointsUpdate validates the change of an Endpoints from old to o. What was stored may stay:
// older rules were weaker.
func EndpointsUpdate(o, old *corev1.Endpoints) field.ErrorList { //nolint:staticcheck // as above
	errs := NewEndpoints(o)
	if len(errs) > 0 && equality.Semantic.DeepEqual(o.Subsets, old.Subsets) {
		return nil
	}
	return errs
}

func appProtocol(at *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return check.Invalid(at.Child("appProtocol"), *name, validation.IsQualifiedName(*name))
}

func checkEndpointAddress(at *field.Path, ip, host string, node *string) field.ErrorList {
	errs := check.IP(at.Child("ip"), ip, nil)
	errs = append(errs, endpointIP(at.Child("ip"), ip)...)
	if host != "" {
		errs = append(errs, check.Invalid(at.Child("hostname"), host, validation.IsDNS1123Label(host))...)
	}
	if node != nil {
		errs = append(errs, check.Invalid(at.Child("nodeName"), *node, validation.IsDNS1123Subdomain(*node))...)
	}
	return errs
}

// endpointIP checks that an address is one that other hosts can have, or this one only.
// Upstream refuses loopback addresses, but the endpoints of this server's own service have
// one when it listens on loopback (e2e, TestServerCreatesConfiguredBootstrapObjects).
func endpointIP(at *field.Path, text string) field.ErrorList {
	if check.ParseIP(text).IsLoopback() {
		return nil
	}
	return reachable(at, text)
}

// reachable checks that an address is one that other hosts can have.
func reachable(at *field.Path, text string) field.ErrorList {
	ip := check.ParseIP(text)
	var why string
	switch {
	case ip == nil: // another error
	case ip.IsUnspecified():
		why = "may not be unspecified (" + text + ")"
	case ip.IsLoopback():
		why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
	case ip.IsLinkLocalUnicast():
		why = "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
	case ip.IsLinkLocalMulticast():
		why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
	}
	if why == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, text, why)}
}

// EndpointSlice validates what an EndpointSlice has besides its endpoints.
func EndpointSlice(o *discoveryv1.EndpointSlice) field.ErrorList {
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
		errs = append(errs, appProtocol(at, port.AppProtocol)...)
	}
	return errs
}

// NewEndpointSlice validates the endpoints of a new EndpointSlice.
func NewEndpointSlice(o *discoveryv1.EndpointSlice) field.ErrorList {
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
		errs = append(errs, field.Required(addresses, "must contain at least 1 address"))
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
	errs = endpointIP(at.Index(i), address)
	if netutils.IsIPv4String(address) != v4 {
		errs = append(errs, field.Invalid(at, address, "must be an "+string(kind)+" address"))
	}
	return errs
}

// EndpointSliceUpdate validates the change of an EndpointSlice from old to o. Endpoints that
// were stored may stay: older rules were weaker.
func EndpointSliceUpdate(o, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := NewEndpointSlice(o)
	if len(errs) > 0 && equality.Semantic.DeepEqual(o.Endpoints, old.Endpoints) {
		errs = nil
	}
	return append(errs, check.Unchanged(nil, "addressType", o.AddressType, old.AddressType)...)
}
