package match

import (
	"errors"
	"slices"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Criteria are MatchResources with their selectors parsed. They are immutable.
type Criteria struct {
	namespaces, objects labels.Selector
	namespacesErr       error // of the first selector
	objectsErr          error // of the second one
	rules, excluded     []admissionregistration.NamedRuleWithOperations
	equivalent          bool
	never               bool // without a rule: a policy then matches everything, a webhook nothing
}

// Matched is the resource and the kind by which a request matches: those of the request, or
// an equivalent that a rule names.
type Matched struct {
	Resource kinds.GroupVersionResource
	Kind     kinds.GroupVersionKind
}

// Compile reads MatchResources. It fails when a selector is missing: the API server fills
// them in.
func Compile(m *admissionregistration.MatchResources) (*Criteria, error) {
	if m.NamespaceSelector == nil {
		return nil, errors.New("a nil namespace selector was passed, please ensure selectors are initialized properly")
	}
	if m.ObjectSelector == nil {
		return nil, errors.New("a nil object selector was passed, please ensure selectors are initialized properly")
	}
	c := &Criteria{
		rules: m.ResourceRules, excluded: m.ExcludeResourceRules,
		equivalent: m.MatchPolicy != nil && *m.MatchPolicy != admissionregistration.Exact,
	}
	var err error
	if c.namespaces, err = metav1.LabelSelectorAsSelector(m.NamespaceSelector); err != nil {
		c.namespacesErr = apierrors.NewInternalError(err)
	}
	if c.objects, err = metav1.LabelSelectorAsSelector(m.ObjectSelector); err != nil {
		c.objectsErr = apierrors.NewInternalError(err)
	}
	return c, nil
}

// CompileWebhook reads what a webhook asks for; see Compile. The members of a validating
// webhook are the same.
func CompileWebhook(w *admissionregistration.MutatingWebhook) (*Criteria, error) {
	m := &admissionregistration.MatchResources{
		NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, MatchPolicy: w.MatchPolicy,
		ResourceRules: make([]admissionregistration.NamedRuleWithOperations, len(w.Rules)),
	}
	for i, rule := range w.Rules {
		m.ResourceRules[i].RuleWithOperations = rule
	}
	c, err := Compile(m)
	if err == nil {
		c.never = len(w.Rules) == 0
	}
	return c, err
}

// Plan is how requests for one resource and operation match criteria: their rules applied to
// all that such requests have in common. It holds as long as the same resources are served.
type Plan struct {
	criteria          *Criteria
	include, excluded []applied
	everything        bool // there are no rules
}

// applied is a rule that may match, by its own resource or an equivalent one.
type applied struct {
	by    kinds.GroupVersionResource
	kind  kinds.GroupVersionKind // empty: the request's own
	scope admissionregistration.ScopeType
	names []string // nil: any
}

// Plan returns how requests match; nil if none does.
func (m *Matcher) Plan(c *Criteria, q Question) *Plan {
	p := &Plan{criteria: c, everything: len(c.rules) == 0 && !c.never}
	a := admission.NewAttributesRecord(nil, nil, kinds.GroupVersionKind{}, "", "", q.Resource, q.Subresource, q.Operation, nil,
		false, nil)
	if p.include = m.apply(c, c.rules, a); len(p.include) == 0 && !p.everything {
		return nil
	}
	p.excluded = m.apply(c, c.excluded, a)
	return p
}

// apply returns the rules that match such requests, whatever their names are. Rules that name
// the request's own resource go before equivalents, which have the same scope.
func (m *Matcher) apply(c *Criteria, all []admissionregistration.NamedRuleWithOperations, a admission.Attributes) []applied {
	var some []applied
	own, served := m.live.Load().Lookup(a.GetResource())
	add := func(rule *admissionregistration.NamedRuleWithOperations, a admission.Attributes, kind kinds.GroupVersionKind) {
		unscoped := rule.RuleWithOperations
		unscoped.Scope = nil
		if !(&rules.Matcher{Rule: unscoped, Attr: a}).Matches() {
			return
		}
		is := applied{by: a.GetResource(), kind: kind, scope: admissionregistration.AllScopes, names: rule.ResourceNames}
		if rule.Scope != nil {
			is.scope = *rule.Scope
		}
		if served && is.scope == admissionregistration.NamespacedScope && !own.Namespaced {
			return
		}
		if served && is.scope == admissionregistration.ClusterScope && own.Namespaced {
			return
		}
		some = append(some, is)
	}
	for i := range all {
		add(&all[i], a, kinds.GroupVersionKind{})
	}
	if !c.equivalent || len(all) == 0 {
		return some
	}
	equivalents := m.Equivalents(a.GetResource(), a.GetSubresource())
	for i := range all {
		for _, other := range equivalents {
			if other != a.GetResource() {
				add(&all[i], renamed{Attributes: a, resource: other}, m.KindFor(other, a.GetSubresource()))
			}
		}
	}
	return some
}

// Matches reports whether a request for the resource and operation of a plan matches, and by
// which resource. An error is returned only for a request that matches otherwise.
func (m *Matcher) Matches(p *Plan, a admission.Attributes) (Matched, bool, error) {
	c := p.criteria
	namespaceErr := c.namespacesErr
	if namespaceErr == nil {
		selected, err := m.Namespace(c.namespaces, a)
		switch {
		case err != nil:
			namespaceErr = err
		case !selected:
			return Matched{}, false, nil
		}
	}
	if c.objectsErr == nil && !Object(c.objects, a) {
		return Matched{}, false, nil
	}
	for i := range p.excluded {
		if p.excluded[i].to(a) {
			return Matched{}, false, nil
		}
	}
	matched, is := Matched{Resource: a.GetResource(), Kind: a.GetKind()}, p.everything
	for i := range p.include {
		if rule := &p.include[i]; rule.to(a) {
			if is = true; !rule.kind.Empty() {
				matched = Matched{Resource: rule.by, Kind: rule.kind}
			}
			break
		}
	}
	switch {
	case !is:
		return Matched{}, false, nil
	case namespaceErr != nil:
		return Matched{}, false, namespaceErr
	}
	return matched, c.objectsErr == nil, c.objectsErr
}

// to reports whether the rule matches a request by scope and name.
func (r *applied) to(a admission.Attributes) bool {
	isNamespace := r.by == Namespaces.WithVersion("v1")
	switch r.scope {
	case admissionregistration.NamespacedScope:
		if isNamespace || a.GetNamespace() == "" {
			return false
		}
	case admissionregistration.ClusterScope:
		if !isNamespace && a.GetNamespace() != "" {
			return false
		}
	case admissionregistration.AllScopes:
	default:
		return false
	}
	return len(r.names) == 0 || slices.Contains(r.names, a.GetName())
}

// renamed is a request as if it were one for another resource.
type renamed struct {
	admission.Attributes
	resource kinds.GroupVersionResource
}

// GetResource returns the other resource.
func (r renamed) GetResource() kinds.GroupVersionResource { return r.resource }
