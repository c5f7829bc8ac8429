package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateFlowSchema validates a FlowSchema.
func validateFlowSchema(o *flowcontrolv1.FlowSchema) field.ErrorList {
	errs := checkFlowSchemaSpec(o.Name, &o.Spec)
	for _, fixed := range bootstrap.MandatoryFlowSchemas {
		if fixed.Name == o.Name && !equality.Semantic.DeepEqual(o.Spec, fixed.Spec) {
			errs = append(errs,
				field.Invalid(check.Spec(), o.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", o.Name)))
		}
	}
	return append(errs, checkFlowSchemaStatus(&o.Status)...)
}

// validateFlowSchemaStatus validates the status of a FlowSchema.
func validateFlowSchemaStatus(o, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	return checkFlowSchemaStatus(&o.Status)
}

func checkFlowSchemaStatus(status *flowcontrolv1.FlowSchemaStatus) field.ErrorList {
	types := make([]string, len(status.Conditions))
	for i, c := range status.Conditions {
		types[i] = string(c.Type)
	}
	return checkConditions(types)
}

// checkConditions checks the types of the conditions of a status.
func checkConditions(types []string) field.ErrorList {
	var errs field.ErrorList
	repeated := check.Repeated(types)
	for i, t := range types {
		at := field.NewPath("status", "conditions").Index(i).Child("type")
		if repeated[i] {
			errs = append(errs, field.Duplicate(at, t))
		}
		if t == "" {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}

func checkFlowSchemaSpec(name string, spec *flowcontrolv1.FlowSchemaSpec) field.ErrorList {
	var errs field.ErrorList
	precedence, at := spec.MatchingPrecedence, check.Spec("matchingPrecedence")
	if precedence <= 0 {
		errs = append(errs, field.Invalid(at, precedence, "must be a positive value"))
	}
	if most := flowcontrolv1.FlowSchemaMaxMatchingPrecedence; precedence > most {
		errs = append(errs, field.Invalid(at, precedence, fmt.Sprintf("must not be greater than %d", most)))
	}
	if precedence == 1 && name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	if method := spec.DistinguisherMethod; method != nil && method.Type != flowcontrolv1.FlowDistinguisherMethodByNamespaceType &&
		method.Type != flowcontrolv1.FlowDistinguisherMethodByUserType {
		errs = append(errs, field.NotSupported(check.Spec("distinguisherMethod", "type"), method,
			[]flowcontrolv1.FlowDistinguisherMethodType{
				flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType,
			}))
	}
	level := check.Spec("priorityLevelConfiguration", "name")
	if referred := spec.PriorityLevelConfiguration.Name; referred != "" {
		errs = append(errs, check.Invalid(level, referred, kinds.SubdomainName(referred))...)
	} else {
		errs = append(errs, field.Required(level, "must reference a priority level"))
	}
	for i := range spec.Rules {
		errs = append(errs, checkRule(check.Spec("rules").Index(i), &spec.Rules[i])...)
	}
	return errs
}

func checkRule(at *field.Path, rule *flowcontrolv1.PolicyRulesWithSubjects) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Subjects) == 0 {
		errs = append(errs, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range rule.Subjects {
		errs = append(errs, checkSubject(at.Child("subjects").Index(i), &rule.Subjects[i])...)
	}
	if len(rule.ResourceRules) == 0 && len(rule.NonResourceRules) == 0 {
		errs = append(errs, field.Required(at, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range rule.ResourceRules {
		errs = append(errs, checkResourceRule(at.Child("resourceRules").Index(i), &rule.ResourceRules[i])...)
	}
	for i := range rule.NonResourceRules {
		errs = append(errs, checkNonResourceRule(at.Child("nonResourceRules").Index(i), &rule.NonResourceRules[i])...)
	}
	return errs
}

func checkSubject(at *field.Path, s *flowcontrolv1.Subject) field.ErrorList {
	var errs field.ErrorList
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		errs = checkServiceAccount(at.Child("serviceAccount"), s.ServiceAccount)
	case flowcontrolv1.SubjectKindUser:
		if errs = missing(at, "user", "User", s.User != nil); errs == nil {
			errs = check.Required(at.Child("user"), "name", s.User.Name, nil)
		}
	case flowcontrolv1.SubjectKindGroup:
		if errs = missing(at, "group", "Group", s.Group != nil); errs == nil {
			errs = check.Required(at.Child("group"), "name", s.Group.Name, nil)
		}
	default:
		return check.Known(at, "kind", s.Kind,
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser)
	}
	for _, member := range []struct {
		name string
		kind flowcontrolv1.SubjectKind
		has  bool
	}{
		{"serviceAccount", flowcontrolv1.SubjectKindServiceAccount, s.ServiceAccount != nil},
		{"user", flowcontrolv1.SubjectKindUser, s.User != nil},
		{"group", flowcontrolv1.SubjectKindGroup, s.Group != nil},
	} {
		if member.has && member.kind != s.Kind {
			errs = append(errs, field.Forbidden(at.Child(member.name),
				fmt.Sprintf("%s is forbidden when subject kind is not '%s'", member.name, member.kind)))
		}
	}
	return errs
}

// missing is the error for a subject without the member that its kind needs.
func missing(at *field.Path, name, kind string, has bool) field.ErrorList {
	if has {
		return nil
	}
	return field.ErrorList{field.Required(at.Child(name), fmt.Sprintf("%s is required when subject kind is '%s'", name, kind))}
}

func checkServiceAccount(at *field.Path, s *flowcontrolv1.ServiceAccountSubject) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(at, "serviceAccount is required when subject kind is 'ServiceAccount'")}
	}
	var errs field.ErrorList
	switch {
	case s.Name == "":
		errs = append(errs, field.Required(at.Child("name"), ""))
	case s.Name != flowcontrolv1.NameAll:
		errs = append(errs, check.Invalid(at.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))...)
	}
	if s.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), "must specify namespace for service account"))
	}
	return append(errs,
		check.Invalid(at.Child("namespace"), s.Namespace, apivalidation.ValidateNamespaceName(s.Namespace, false))...)
}

// all is the member of a list that stands for every value, and has to be its only one.
const all = "*"

// verbs are those of requests, in the order of upstream's errors.
func verbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
}

func checkVerbs(at *field.Path, list []string) field.ErrorList {
	errs := checkList(at.Child("verbs"), list, "verbs must contain at least one value", "verbs")
	if errs != nil || slices.Contains(list, all) {
		return errs
	}
	known := verbs()
	for _, verb := range list {
		if !slices.Contains(known, verb) {
			return field.ErrorList{field.NotSupported(at.Child("verbs"), list, known)}
		}
	}
	return nil
}

// checkList checks a list that must not be empty, and has no value beside *.
func checkList(at *field.Path, list []string, required, what string) field.ErrorList {
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, required)}
	case len(list) > 1 && slices.Contains(list, all):
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

func checkResourceRule(at *field.Path, rule *flowcontrolv1.ResourcePolicyRule) field.ErrorList {
	errs := checkVerbs(at, rule.Verbs)
	errs = append(errs,
		checkList(at.Child("apiGroups"), rule.APIGroups, "resource rules must supply at least one api group", "api groups")...)
	errs = append(errs,
		checkList(at.Child("resources"), rule.Resources, "resource rules must supply at least one resource", "resources")...)
	if len(rule.Namespaces) == 0 && rule.ClusterScope {
		return errs
	}
	wrong := checkList(at.Child("namespaces"), rule.Namespaces,
		"resource rules that are not cluster scoped must supply at least one namespace", "namespaces")
	if wrong != nil || slices.Contains(rule.Namespaces, all) {
		return append(errs, wrong...)
	}
	for i, ns := range rule.Namespaces {
		for _, why := range apivalidation.ValidateNamespaceName(ns, false) {
			errs = append(errs, field.Invalid(at.Child("namespaces").Index(i), ns,
				"each member of this list must be '*' or a DNS-1123 label; "+why))
		}
	}
	return errs
}

func checkNonResourceRule(at *field.Path, rule *flowcontrolv1.NonResourcePolicyRule) field.ErrorList {
	errs := checkVerbs(at, rule.Verbs)
	wrong := checkList(at.Child("nonResourceURLs"), rule.NonResourceURLs, "nonResourceURLs must contain at least one value",
		"non-resource URLs")
	if wrong != nil || slices.Contains(rule.NonResourceURLs, all) {
		return append(errs, wrong...)
	}
	for i, path := range rule.NonResourceURLs {
		if why := urlProblem(path); why != "" {
			errs = append(errs, field.Invalid(at.Child("nonResourceURLs").Index(i), path, why))
		}
	}
	return errs
}

// urlProblem says what is wrong with a path that may end with a wildcard; "": nothing.
func urlProblem(path string) string {
	switch stars := strings.Count(path, all); {
	case path == "":
		return "must not be empty"
	case path[0] != '/':
		return "must start with slash"
	case strings.Contains(path, " "):
		return "must not contain white-space"
	case strings.Contains(path, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(path, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}
