package check

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// AppProtocol checks the name of the protocol that is spoken at a port; nil if none is named.
func AppProtocol(at *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return Invalid(at.Child("appProtocol"), *name, validation.IsQualifiedName(*name))
}

// EndpointIP checks that an address is one that other hosts can have, or this one only.
// Upstream refuses loopback addresses, but the endpoints of this server's own service have
// one when it listens on loopback (e2e, TestServerCreatesConfiguredBootstrapObjects).
func EndpointIP(at *field.Path, text string) field.ErrorList {
	if ParseIP(text).IsLoopback() {
		return nil
	}
	return Reachable(at, text)
}

// Reachable checks that an address is one that other hosts can have.
func Reachable(at *field.Path, text string) field.ErrorList {
	ip := ParseIP(text)
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

// IsAddress reports whether a host is given by its IP address.
func IsAddress(host string) bool {
	return ParseIP(host) != nil
}

// PointIP checks the IP address of a load balancer in a status. Those that were kept from before may be
// of a form that is not accepted any more.
func PointIP(at *field.Path, ip string, kept []string) field.ErrorList {
	if ip == "" {
		return nil
	}
	return IP(at.Child("ip"), ip, kept)
}

// PointHost checks the host name of a load balancer in a status.
func PointHost(at *field.Path, host string) field.ErrorList {
	if host == "" {
		return nil
	}
	errs := Invalid(at.Child("hostname"), host, validation.IsDNS1123Subdomain(host))
	if IsAddress(host) {
		errs = append(errs, field.Invalid(at.Child("hostname"), host, "must be a DNS name, not an IP address"))
	}
	return errs
}
