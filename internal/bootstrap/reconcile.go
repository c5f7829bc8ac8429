package bootstrap

import (
	"encoding/json"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gapless-io/gapless/internal/auth/rbac/rules"
)

// correctRole adds to a Role or ClusterRole what is missing of the one that line has, unless
// its annotation rbac.authorization.kubernetes.io/autoupdate is false. It keeps what users
// have added (component-helpers auth/rbac/reconciliation).
func correctRole(line string) func([]byte) (any, error) {
	// A Role has no other members than a ClusterRole.
	return correction(func(there *rbacv1.ClusterRole) (changed bool, err error) {
		if there.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
			return false, nil
		}
		var wanted rbacv1.ClusterRole
		if err := json.Unmarshal([]byte(line), &wanted); err != nil {
			return false, err
		}
		changed = add(&there.Labels, wanted.Labels)
		changed = add(&there.Annotations, wanted.Annotations) || changed
		if missing := rules.Missing(there.Rules, wanted.Rules); len(missing) > 0 {
			there.Rules = append(there.Rules, missing...)
			changed = true
		}
		return correctAggregation(there, &wanted) || changed, nil
	})
}

func correctAggregation(there, wanted *rbacv1.ClusterRole) (changed bool) {
	if wanted.AggregationRule == nil {
		changed = there.AggregationRule != nil
		there.AggregationRule = nil
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

// correctBinding does the same to a RoleBinding or ClusterRoleBinding, whose members are the
// same.
func correctBinding(line string) func([]byte) (any, error) {
	return correction(func(there *rbacv1.ClusterRoleBinding) (changed bool, err error) {
		if there.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
			return false, nil
		}
		var wanted rbacv1.ClusterRoleBinding
		if err := json.Unmarshal([]byte(line), &wanted); err != nil {
			return false, err
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
	})
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
