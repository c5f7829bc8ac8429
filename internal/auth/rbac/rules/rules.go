// Package rules says what the rules of roles allow, and compares them.
//
// A rule is a PolicyRule of rbac.authorization.k8s.io/v1. The package matches, covers and
// prints rules as Kubernetes does, whose texts clients show to users
// (pkg/apis/rbac/v1/evaluation_helpers.go, pkg/registry/rbac/validation,
// component-helpers/auth/rbac/validation). conformance/builtin compares them.
package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/gapless-io/gapless/internal/auth"
)

// all is the word of a rule that matches everything.
const all = "*"

// Allows reports whether a rule allows what a request wants to do.
func Allows(rule *rbacv1.PolicyRule, a *auth.Attributes) bool {
	if !has(rule.Verbs, a.Verb) {
		return false
	}
	if a.Path != "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(path string) bool { return coversPath(path, a.Path) })
	}
	return has(rule.APIGroups, a.Resource.Group) && hasResource(rule.Resources, a.Resource.Resource, a.Subresource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name))
}

// has reports whether a list has a word, or "*".
func has(words []string, word string) bool {
	for _, w := range words {
		if w == word || w == all {
			return true
		}
	}
	return false
}

// hasResource reports whether a list has "resource/subresource", "*/subresource" or "*".
// Without a subresource it is "resource".
func hasResource(resources []string, resource, subresource string) bool {
	for _, r := range resources {
		if r == all {
			return true
		}
		if subresource == "" {
			if r == resource {
				return true
			}
			continue
		}
		of, sub, _ := strings.Cut(r, "/")
		if sub == subresource && (of == resource || of == all) {
			return true
		}
	}
	return false
}

// coversPath reports whether the path of a rule, which may end in "*", covers another.
func coversPath(of, path string) bool {
	return of == path || strings.HasSuffix(of, all) && strings.HasPrefix(path, strings.TrimRight(of, all))
}

// Missing returns what wanted allows and has does not, as rules for one verb and one
// resource, name or path each.
func Missing(has, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for i := range wanted {
		for one := range single(&wanted[i]) {
			if !slices.ContainsFunc(has, func(r rbacv1.PolicyRule) bool { return covers(&r, &one) }) {
				missing = append(missing, one)
			}
		}
	}
	return missing
}

// single splits a rule into rules for one verb and one resource, name or path each.
func single(rule *rbacv1.PolicyRule) func(yield func(rbacv1.PolicyRule) bool) {
	return func(yield func(rbacv1.PolicyRule) bool) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					one := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
					if len(rule.ResourceNames) == 0 && !yield(one) {
						return
					}
					for _, name := range rule.ResourceNames {
						one.ResourceNames = []string{name}
						if !yield(one) {
							return
						}
					}
				}
			}
		}
		for _, path := range rule.NonResourceURLs {
			for _, verb := range rule.Verbs {
				if !yield(rbacv1.PolicyRule{NonResourceURLs: []string{path}, Verbs: []string{verb}}) {
					return
				}
			}
		}
	}
}

// covers reports whether a rule allows all that one allows, which single has returned.
func covers(rule, one *rbacv1.PolicyRule) bool {
	if !has(rule.Verbs, one.Verbs[0]) {
		return false
	}
	if len(one.NonResourceURLs) > 0 {
		path := one.NonResourceURLs[0]
		return slices.ContainsFunc(rule.NonResourceURLs, func(of string) bool { return coversPath(of, path) })
	}
	if !has(rule.APIGroups, one.APIGroups[0]) {
		return false
	}
	if len(rule.ResourceNames) > 0 &&
		(len(one.ResourceNames) == 0 || !slices.Contains(rule.ResourceNames, one.ResourceNames[0])) {
		return false
	}
	resource := one.Resources[0]
	if has(rule.Resources, resource) {
		return true
	}
	_, subresource, is := strings.Cut(resource, "/")
	return is && slices.Contains(rule.Resources, "*/"+subresource)
}

// Texts returns rules as lines for users, sorted. Those that differ only by verb are one
// line.
func Texts(rules []rbacv1.PolicyRule) []string {
	type place struct {
		group, resource, name string
		named                 bool
	}
	texts, verbs := map[string]struct{}{}, map[place]*rbacv1.PolicyRule{}
	for _, rule := range rules {
		if len(rule.NonResourceURLs) > 0 || len(rule.APIGroups) != 1 || len(rule.Resources) != 1 || len(rule.ResourceNames) > 1 {
			texts[text(&rule)] = struct{}{}
			continue
		}
		at := place{group: rule.APIGroups[0], resource: rule.Resources[0]}
		if len(rule.ResourceNames) > 0 {
			at.name, at.named = rule.ResourceNames[0], true
		}
		if verbs[at] == nil {
			verbs[at] = rule.DeepCopy()
		} else {
			verbs[at].Verbs = append(verbs[at].Verbs, rule.Verbs...)
		}
	}
	for _, rule := range verbs {
		texts[text(rule)] = struct{}{}
	}
	return slices.Sorted(maps.Keys(texts))
}

func text(r *rbacv1.PolicyRule) string {
	var parts []string
	for _, part := range []struct {
		name  string
		words []string
	}{
		{"APIGroups", r.APIGroups},
		{"Resources", r.Resources},
		{"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames},
		{"Verbs", r.Verbs},
	} {
		if len(part.words) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.words))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
