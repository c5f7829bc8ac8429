package fault

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// verbs are those that a Match may name: of resources, and methods of other paths.
func verbs() []string {
	return []string{
		"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy",
		"post", "put", "head", "options",
	}
}

// fits reports whether a request fits the fields that describe it.
func (m *Match) fits(q *Request, r *http.Request) bool {
	switch {
	case len(m.Verbs) > 0 && !slices.Contains(m.Verbs, q.Verb):
	case len(m.Resources) > 0 && !anyResource(m.Resources, q):
	case len(m.Subresources) > 0 && !slices.Contains(m.Subresources, q.Subresource):
	case len(m.Namespaces) > 0 && !fitsAny(m.Namespaces, q.Namespace):
	case len(m.Names) > 0 && !fitsAny(m.Names, selectedName(q.Name, r)):
	case len(m.UserAgents) > 0 && !fitsAny(m.UserAgents, r.UserAgent()):
	default:
		return true
	}
	return false
}

func anyResource(names []string, q *Request) bool {
	if q.Resource == "" {
		return false
	}
	for _, name := range names {
		resource, group, _ := strings.Cut(name, ".")
		if name == "*" || resource == q.Resource && group == q.Group {
			return true
		}
	}
	return false
}

// check returns what is wrong with a match, for an action that can act on these verbs; nil
// means all.
func (m *Match) check(able []string) error {
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, v := range m.Verbs {
		if !slices.Contains(verbs(), v) {
			bad("match.verbs: there is no verb %q; the verbs are %s", v, strings.Join(verbs(), ", "))
		} else if able != nil && !slices.Contains(able, v) {
			bad("match.verbs: the action can do nothing to %q, only to %s: remove the verb", v, strings.Join(able, ", "))
		}
	}
	for _, name := range m.Resources {
		if name == "" || strings.ContainsAny(name, "/ *") && name != "*" || strings.ToLower(name) != name {
			bad(
				"match.resources: %q is no resource; want a plural in lower case with its group, like pods or "+
					"deployments.apps, or *", name)
		}
	}
	for _, list := range [][]string{m.Namespaces, m.Names, m.UserAgents} {
		if slices.Contains(list, "") {
			bad("match: namespaces, names and userAgents cannot be empty; * is any, and without the field all requests match")
		}
	}
	asks := m.Verbs
	if len(asks) == 0 {
		asks = able
	}
	if len(asks) > 0 && len(m.Subresources) > 0 && !slices.Contains(m.Subresources, "") &&
		!slices.ContainsFunc(asks, hasSubresource) {
		bad("match.subresources: a %s is not about a subresource, so no request can match: remove them",
			strings.Join(asks, " or "))
	}
	if len(m.Verbs) > 0 && !slices.ContainsFunc(m.Verbs, ofResource) &&
		len(m.Resources)+len(m.Subresources)+len(m.Namespaces)+len(m.Names) > 0 {
		bad("match.verbs: a %s is about no resource, so no request can match: use verbs like create and update",
			strings.Join(m.Verbs, " or "))
	}
	if len(m.Names) > 0 && len(m.Verbs) > 0 && !slices.ContainsFunc(m.Verbs, namesObject) && len(m.Subresources) == 0 {
		bad("match.names: a %s has no name in its path, so no request can match: remove the names", strings.Join(m.Verbs, " or "))
	}
	switch {
	case m.Nth < 0 || m.Every < 0:
		bad("match: nth and every count from 1")
	case m.Nth > 0 && m.Every > 0:
		bad("match: nth is one request and every many: set one of them")
	}
	if !(m.Probability >= 0 && m.Probability <= 1) { // also not a number
		bad("match.probability is %v: want a number from 0 to 1", m.Probability)
	}
	switch {
	case m.After < 0 || m.Until < 0:
		bad("match: after and until are durations from when the rule is added, and cannot be negative")
	case m.Until > 0 && m.Until <= m.After:
		bad("match: until (%v) is not later than after (%v), so no request can match", m.Until, m.After)
	}
	return errors.Join(wrong...)
}

// noWatch reports whether a rule names verbs and watch is not one of them.
func noWatch(r *Rule) bool {
	return len(r.Match.Verbs) > 0 && !slices.Contains(r.Match.Verbs, "watch")
}
