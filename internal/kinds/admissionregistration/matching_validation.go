package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// only is upstream's error for a wildcard that is not alone in a list.
func only(at *field.Path, values any, wildcard, others string) field.ErrorList {
	return field.ErrorList{
		field.Invalid(at, values, fmt.Sprintf("if '%s' is present, must not specify other %s", wildcard, others)),
	}
}

// checkRule checks a rule: operations, and what they are about.
func checkRule(at *field.Path, r *admissionv1.RuleWithOperations) field.ErrorList {
	var errs field.ErrorList
	if len(r.Operations) == 0 {
		errs = append(errs, field.Required(at.Child("operations"), ""))
	}
	if len(r.Operations) > 1 && slices.Contains(r.Operations, admissionv1.OperationAll) {
		errs = append(errs, only(at.Child("operations"), r.Operations, "*", "operations")...)
	}
	for i, operation := range r.Operations {
		errs = append(errs, check.Known(at.Child("operations").Index(i), "", operation,
			admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Delete, admissionv1.Update)...)
	}
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(at.Child("apiGroups"), ""))
	}
	if len(r.APIGroups) > 1 && slices.Contains(r.APIGroups, "*") {
		errs = append(errs, only(at.Child("apiGroups"), r.APIGroups, "*", "API groups")...)
	}
	if len(r.APIVersions) == 0 {
		errs = append(errs, field.Required(at.Child("apiVersions"), ""))
	}
	if len(r.APIVersions) > 1 && slices.Contains(r.APIVersions, "*") {
		errs = append(errs, only(at.Child("apiVersions"), r.APIVersions, "*", "API versions")...)
	}
	for i, version := range r.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, checkResources(at.Child("resources"), r.Resources)...)
	return append(errs,
		check.KnownIfSet(at, "scope", r.Scope, admissionv1.AllScopes, admissionv1.ClusterScope, admissionv1.NamespacedScope)...)
}

// checkResources checks the resources of a rule: none is named twice by wildcards.
func checkResources(at *field.Path, resources []string) field.ErrorList {
	var errs field.ErrorList
	if len(resources) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	allOf, everywhere := map[string]bool{}, map[string]bool{} // x of x/*, y of */y
	whole := false
	for i, resource := range resources {
		name, sub, has := strings.Cut(resource, "/")
		switch {
		case resource == "":
			errs = append(errs, field.Required(at.Index(i), ""))
			continue
		case !has:
			whole = resource != "*" // of the last one that has no slash, as upstream
			continue
		}
		if allOf[name] {
			errs = append(errs,
				field.Invalid(at.Index(i), resource, fmt.Sprintf("if '%s/*' is present, must not specify %s", name, resource)))
		}
		if everywhere[sub] {
			errs = append(errs,
				field.Invalid(at.Index(i), resource, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, resource)))
		}
		allOf[name] = allOf[name] || sub == "*"
		everywhere[sub] = everywhere[sub] || name == "*"
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, only(at, resources, "*/*", "resources")...)
	}
	if whole && slices.Contains(resources, "*") {
		errs = append(errs, only(at, resources, "*", "resources without subresources")...)
	}
	return errs
}

// checkMatchResources checks what a policy or a binding is about; nil: everything.
func checkMatchResources(at *field.Path, m *admissionv1.MatchResources) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(at.Child("matchPolicy"), ""))
	}
	errs = append(errs, matchPolicy(at, m.MatchPolicy)...)
	errs = append(errs, strictSelector(at.Child("namespaceSelector"), m.NamespaceSelector)...)
	errs = append(errs, strictSelector(at.Child("objectSelector"), m.ObjectSelector)...)
	for i := range m.ResourceRules {
		errs = append(errs, namedRule(at.Child("resourceRules").Index(i), &m.ResourceRules[i])...)
	}
	for i := range m.ExcludeResourceRules {
		errs = append(errs, namedRule(at.Child("excludeResourceRules").Index(i), &m.ExcludeResourceRules[i])...)
	}
	return errs
}

func matchPolicy(at *field.Path, policy *admissionv1.MatchPolicyType) field.ErrorList {
	return check.KnownIfSet(at, "matchPolicy", policy, admissionv1.Equivalent, admissionv1.Exact)
}

func failurePolicy(at *field.Path, policy *admissionv1.FailurePolicyType) field.ErrorList {
	return check.KnownIfSet(at, "failurePolicy", policy, admissionv1.Fail, admissionv1.Ignore)
}

func strictSelector(at *field.Path, s *metav1.LabelSelector) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, at)
}

func namedRule(at *field.Path, r *admissionv1.NamedRuleWithOperations) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, name := range r.ResourceNames {
		errs = append(errs, check.Invalid(at.Child("resourceNames").Index(i), name, content.IsPathSegmentName(name))...)
		if seen[name] {
			errs = append(errs, field.Duplicate(at.Child("resourceNames").Index(i), name))
		}
		seen[name] = true
	}
	return append(errs, checkRule(at, &r.RuleWithOperations)...)
}

// mutable checks that rules are about operations that a policy can mutate.
func mutable(at *field.Path, rules []admissionv1.NamedRuleWithOperations) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		for _, operation := range rules[i].Operations {
			errs = append(errs, check.Known(at.Child("resourceRules", "operations"), "", operation,
				admissionv1.OperationAll, admissionv1.Connect, admissionv1.Create, admissionv1.Update)...)
		}
	}
	return errs
}

// notStatic refuses names that are reserved for manifests which a server reads from files.
func notStatic(name string) field.ErrorList {
	const suffix = ".static.k8s.io"
	if !strings.HasSuffix(name, suffix) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), name, fmt.Sprintf(
		"names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", suffix))}
}
