package kinds

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// SubdomainName is the name rule of most kinds: a DNS-1123 subdomain.
func SubdomainName(name string) []string {
	if IsSubdomain(name) {
		return nil
	}
	return validation.IsDNS1123Subdomain(name)
}

// LabelName is the name rule of namespaces and services: a DNS-1123 label.
func LabelName(name string) []string {
	if IsLabel(name) {
		return nil
	}
	return validation.IsDNS1123Label(name)
}

// PortName is the name rule of a container's port: validation.IsValidPortName.
func PortName(name string) []string {
	if isPortName(name) {
		return nil
	}
	return validation.IsValidPortName(name)
}

// isPortName reports whether s is the name of a port: up to 15 lower case letters, one at least,
// digits, and single dashes inside.
func isPortName(s string) bool {
	return len(s) <= 15 && isLowerName(s) && !strings.Contains(s, "--") &&
		strings.ContainsFunc(s, func(r rune) bool { return r >= 'a' && r <= 'z' })
}

// IsSubdomain reports whether s is a DNS-1123 subdomain: labels with dots between them. It
// says the same as validation.IsDNS1123Subdomain, without a regular expression.
func IsSubdomain(s string) bool {
	if len(s) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	begin := 0
	for i := range len(s) {
		if s[i] == '.' {
			if !isLowerName(s[begin:i]) {
				return false
			}
			begin = i + 1
		}
	}
	return isLowerName(s[begin:])
}

// IsLabel reports whether s is a DNS-1123 label, as validation.IsDNS1123Label does.
func IsLabel(s string) bool { return len(s) <= validation.DNS1123LabelMaxLength && isLowerName(s) }

// isLowerName reports whether s consists of lower case letters, digits, and dashes that are
// neither at its beginning nor at its end.
func isLowerName(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// QualifiedName is the rule of keys of labels, and of names of resources: validation.IsQualifiedName.
func QualifiedName(name string) []string {
	if IsQualified(name) {
		return nil
	}
	return validation.IsQualifiedName(name)
}

// IsQualified reports whether s is a name, with a DNS subdomain and a slash before it or not, as
// validation.IsQualifiedName does.
func IsQualified(s string) bool {
	if domain, name, has := strings.Cut(s, "/"); has {
		return IsSubdomain(domain) && IsLabelValue(name)
	}
	return IsLabelValue(s)
}

// IsLabelValue reports whether s is the name part of a qualified name, or the value of a label that is not empty:
// letters, digits, and dashes, underscores and dots inside.
func IsLabelValue(s string) bool {
	if s == "" || len(s) > validation.LabelValueMaxLength || !isAlphanumeric(s[0]) || !isAlphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// SegmentName is the name rule of roles, bindings and disruption budgets: any valid
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

// ControllerName is the name rule of kinds whose name becomes a label of their pods
// (cron jobs): a subdomain of at most longest characters.
func ControllerName(longest int) func(name string) []string {
	return func(name string) []string {
		errs := SubdomainName(name)
		if len(name) > longest {
			errs = append(errs, validation.MaxLenError(longest))
		}
		return errs
	}
}
