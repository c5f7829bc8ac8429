package certificates

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkSigner checks the name of a signer: a domain, and a path of subdomains.
func checkSigner(at *field.Path, name string) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	domain, path, found := strings.Cut(name, "/")
	if !found || strings.Contains(path, "/") {
		return field.ErrorList{
			field.Invalid(at, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
		}
	}
	var errs field.ErrorList
	if len(domain) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(at, "", validation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, checkSegments(at, domain, validation.IsDNS1123Label)...)
	if !strings.Contains(domain, ".") {
		errs = append(errs, field.Invalid(at, domain, "should be a domain with at least two segments separated by dots"))
	}
	errs = append(errs, checkSegments(at, path, validation.IsDNS1123Subdomain)...)
	// A domain, a namespace and the name of a resource, with a slash and a dot between them.
	const longest = 2*validation.DNS1123SubdomainMaxLength + validation.DNS1123LabelMaxLength + 2
	if len(name) > longest {
		errs = append(errs, field.TooLong(at, "", longest))
	}
	return errs
}

// checkSegments checks the parts of a name between dots, up to the first that is invalid.
func checkSegments(at *field.Path, name string, rule func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for segment := range strings.SplitSeq(name, ".") {
		for _, why := range rule(segment) {
			errs = append(errs, field.Invalid(at, name, fmt.Sprintf("validating label %q: %s", segment, why)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}
