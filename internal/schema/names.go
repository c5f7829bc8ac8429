package schema

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// SubdomainName is the name rule of most kinds: a DNS-1123 subdomain.
func SubdomainName(name string) []string { return validation.IsDNS1123Subdomain(name) }

// LabelName is the name rule of namespaces: a DNS-1123 label.
func LabelName(name string) []string { return validation.IsDNS1123Label(name) }

// ServiceName is the name rule of services: a DNS-1035 label, which does not
// begin with a digit.
func ServiceName(name string) []string { return validation.IsDNS1035Label(name) }

// SegmentName is the name rule of roles and bindings: whatever fits into one
// segment of a path.
func SegmentName(name string) []string {
	var errs []string
	if name == "." || name == ".." {
		errs = append(errs, fmt.Sprintf("may not be '%s'", name))
	}
	for _, separator := range []string{"/", "%"} {
		if strings.Contains(name, separator) {
			errs = append(errs, fmt.Sprintf("may not contain '%s'", separator))
		}
	}
	return errs
}

// ControllerName is the name rule of the kinds whose pods take over the name in
// a label (cron jobs): a subdomain of at most longest characters.
func ControllerName(longest int) func(name string) []string {
	return func(name string) []string {
		errs := SubdomainName(name)
		if len(name) > longest {
			errs = append(errs, validation.MaxLenError(longest))
		}
		return errs
	}
}
