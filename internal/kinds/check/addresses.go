package check

import (
	"net"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Addresses that programs read differently are refused: one with leading zeros is decimal for
// some and octal for others, one of IPv4 in IPv6 form belongs to either family. Fields from
// before that rule may keep what they had: kept are the values of the stored object, nil for
// a creation (upstream's feature gate StrictIPCIDRValidation, kubernetes#122550).

// IP checks an address.
func IP(at *field.Path, value string, kept []string) field.ErrorList {
	return validation.IsValidIPForLegacyField(at, value, true, kept)
}

// CIDR checks a range of addresses.
func CIDR(at *field.Path, value string, kept []string) field.ErrorList {
	return validation.IsValidCIDRForLegacyField(at, value, true, kept)
}

// OnePerFamily requires of several addresses or ranges, which parse reads, that they are one
// of IPv4 and one of IPv6.
func OnePerFamily(at *field.Path, values []string, why string, parse func(string) net.IP) field.ErrorList {
	if len(values) < 2 {
		return nil
	}
	ips := make([]net.IP, 0, len(values))
	for _, value := range values {
		ips = append(ips, parse(value))
	}
	var errs field.ErrorList
	v6 := slices.IndexFunc(ips, netutils.IsIPv6)
	if i := slices.IndexFunc(ips, func(ip net.IP) bool { return ip == nil }); i >= 0 {
		errs = append(errs, field.InternalError(at, &net.ParseError{Type: "address", Text: values[i]}))
	} else if len(values) == 2 && v6 >= 0 && slices.ContainsFunc(ips, netutils.IsIPv4) {
		return nil
	}
	return append(errs, field.Invalid(at, values, why))
}

// ParseIP reads an address as upstream does, with leading zeros too; nil if it is none.
func ParseIP(value string) net.IP { return netutils.ParseIPSloppy(value) }

// ParseCIDR returns the address in a range; nil if it is none.
func ParseCIDR(value string) net.IP {
	ip, _, err := netutils.ParseCIDRSloppy(value)
	if err != nil {
		return nil
	}
	return ip
}
