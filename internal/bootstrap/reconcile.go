package bootstrap

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// firstRoles are the roles and bindings that each start reconciles: it keeps what users
// have added and adds what is missing, unless the annotation
// rbac.authorization.kubernetes.io/autoupdate is false (kubernetes
// pkg/registry/rbac/reconciliation).
func firstRoles() []object {
	var objects []object
	for _, wanted := range clusterRoles() {
		objects = append(objects, object{
			resource: rbac("clusterroles"), name: wanted.Name, wanted: wanted,
			correct: correction(func(there *rbacv1.ClusterRole) (bool, error) { return correctRole(there, wanted), nil }),
		})
	}
	for _, wanted := range clusterRoleBindings() {
		objects = append(objects, object{
			resource: rbac("clusterrolebindings"), name: wanted.Name, wanted: wanted,
			correct: correction(func(there *rbacv1.ClusterRoleBinding) (bool, error) { return correctBinding(there, wanted) }),
		})
	}
	return objects
}

func correctRole(there, wanted *rbacv1.ClusterRole) (changed bool) {
	if there.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return false
	}
	changed = add(&there.Labels, wanted.Labels)
	changed = add(&there.Annotations, wanted.Annotations) || changed
	if missing := uncovered(there.Rules, wanted.Rules); len(missing) > 0 {
		there.Rules = append(there.Rules, missing...)
		changed = true
	}
	if wanted.AggregationRule == nil {
		return changed
	}
	if there.AggregationRule == nil {
		there.AggregationRule = &rbacv1.AggregationRule{}
	}
	has := &there.AggregationRule.ClusterRoleSelectors
	for _, selector := range wanted.AggregationRule.ClusterRoleSelectors {
		if !contains(*has, selector) {
			*has = append(*has, selector)
			changed = true
		}
	}
	return changed
}

func correctBinding(there, wanted *rbacv1.ClusterRoleBinding) (changed bool, err error) {
	if there.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return false, nil
	}
	if there.RoleRef != wanted.RoleRef {
		return false, errReplace // it cannot be changed
	}
	changed = add(&there.Labels, wanted.Labels)
	changed = add(&there.Annotations, wanted.Annotations) || changed
	for _, subject := range wanted.Subjects {
		if !slices.Contains(there.Subjects, subject) {
			there.Subjects = append(there.Subjects, subject)
			changed = true
		}
	}
	return changed, nil
}

// add adds missing members to a map, and reports whether it did.
func add(to *map[string]string, from map[string]string) (changed bool) {
	for key, value := range from {
		if _, has := (*to)[key]; !has {
			changed = set(to, key, value) || changed
		}
	}
	return changed
}

func contains[T any](all []T, one T) bool {
	return slices.ContainsFunc(all, func(other T) bool { return equality.Semantic.DeepEqual(other, one) })
}

// uncovered returns what wanted allows and has does not, as rules for one verb and one
// resource or path each.
func uncovered(has, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for _, rule := range wanted {
		for _, one := range single(rule) {
			if !slices.ContainsFunc(has, func(r rbacv1.PolicyRule) bool { return covers(r, one) }) {
				missing = append(missing, one)
			}
		}
	}
	return missing
}

// single splits a rule into rules for one verb and one resource or path each.
func single(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, verb := range rule.Verbs {
		for _, path := range rule.NonResourceURLs {
			all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{path}})
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}})
			}
		}
	}
	return all
}

// covers reports whether a rule allows all that another rule allows, which has one verb and
// one resource or path.
func covers(rule, one rbacv1.PolicyRule) bool {
	if !has(rule.Verbs, one.Verbs[0]) {
		return false
	}
	if len(one.NonResourceURLs) > 0 {
		wanted := one.NonResourceURLs[0]
		return slices.ContainsFunc(rule.NonResourceURLs, func(path string) bool {
			prefix, open := strings.CutSuffix(path, "*")
			return path == wanted || open && strings.HasPrefix(wanted, prefix)
		})
	}
	if len(rule.ResourceNames) > 0 || !has(rule.APIGroups, one.APIGroups[0]) {
		return false
	}
	wanted := one.Resources[0]
	if has(rule.Resources, wanted) {
		return true
	}
	_, sub, is := strings.Cut(wanted, "/")
	return is && slices.Contains(rule.Resources, "*/"+sub)
}

// has reports whether a list has a word, or "*" for all.
func has(words []string, word string) bool {
	return slices.Contains(words, word) || slices.Contains(words, "*")
}
