package match

import (
	"errors"
	"fmt"
	"slices"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/gapless-io/gapless/internal/schema"
)

// Criteria are MatchResources with their selectors parsed. They are immutable.
type Criteria struct {
	namespaces, objects labels.Selector
	namespacesErr       error // of the first selector
	objectsErr          error // of the second one
	rules, excluded     []admissionregistration.NamedRuleWithOperations
	equivalent          bool
}

// Matched is the resource and the kind by which a request matches: those of the request, or
// an equivalent that a rule names.
type Matched struct {
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
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
	c.namespaces, c.namespacesErr = metav1.LabelSelectorAsSelector(m.NamespaceSelector)
	c.objects, c.objectsErr = metav1.LabelSelectorAsSelector(m.ObjectSelector)
	return c, nil
}

// Concerns reports whether a request for a resource may match, whatever its namespace, name
// and labels are. It looks only at the rules that include.
func (m *Matcher) Concerns(c *Criteria, gvr schema.GroupVersionResource, subresource string, op admission.Operation) bool {
	if len(c.rules) == 0 {
		return true
	}
	resources := []schema.GroupVersionResource{gvr}
	if c.equivalent {
		resources = append(resources, m.Equivalents(gvr, subresource)...)
	}
	for _, resource := range resources {
		a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", resource, subresource, op, nil, false, nil)
		for _, named := range c.rules {
			rule := named.RuleWithOperations
			rule.Scope = nil
			if (&rules.Matcher{Rule: rule, Attr: a}).Matches() {
				return true
			}
		}
	}
	return false
}

// Matches reports whether a request matches, and by which resource. An error is returned only
// for a request that matches otherwise.
func (m *Matcher) Matches(c *Criteria, a admission.Attributes) (Matched, bool, error) {
	namespaceErr := c.namespacesErr
	if namespaceErr == nil {
		selected, err := m.Namespace(c.namespaces, a)
		switch {
		case err != nil:
			namespaceErr = err
		case !selected:
			return Matched{}, false, nil
		}
	} else {
		namespaceErr = apierrors.NewInternalError(namespaceErr)
	}
	objectErr := c.objectsErr
	if objectErr != nil {
		objectErr = apierrors.NewInternalError(objectErr)
	} else if !Object(c.objects, a) {
		return Matched{}, false, nil
	}
	if _, excluded, err := m.byRules(c.excluded, c.equivalent, a); excluded || err != nil {
		return Matched{}, false, err
	}
	matched, is := Matched{Resource: a.GetResource(), Kind: a.GetKind()}, true
	if len(c.rules) > 0 {
		var err error
		if matched, is, err = m.byRules(c.rules, c.equivalent, a); err != nil || !is {
			return Matched{}, false, err
		}
	}
	for _, err := range []error{namespaceErr, objectErr} {
		if err != nil {
			return Matched{}, false, err
		}
	}
	return matched, true, nil
}

// byRules returns the first rule's resource that a request matches: rules that name the
// request's own resource go before equivalents.
func (m *Matcher) byRules(named []admissionregistration.NamedRuleWithOperations, equivalent bool, a admission.Attributes) (Matched, bool, error) {
	for i := range named {
		if rule := (&rules.Matcher{Rule: named[i].RuleWithOperations, Attr: a}); rule.Matches() && names(&named[i], a) {
			return Matched{Resource: a.GetResource(), Kind: a.GetKind()}, true, nil
		}
	}
	if !equivalent || len(named) == 0 {
		return Matched{}, false, nil
	}
	equivalents := m.Equivalents(a.GetResource(), a.GetSubresource())
	for i := range named {
		for _, other := range equivalents {
			if other == a.GetResource() {
				continue
			}
			rule := rules.Matcher{Rule: named[i].RuleWithOperations, Attr: renamed{Attributes: a, resource: other}}
			if !rule.Matches() || !names(&named[i], a) {
				continue
			}
			kind := m.KindFor(other, a.GetSubresource())
			if kind.Empty() { // it was removed at this moment
				return Matched{}, false, fmt.Errorf("unable to convert to %v: unknown kind", other)
			}
			return Matched{Resource: other, Kind: kind}, true, nil
		}
	}
	return Matched{}, false, nil
}

// names reports whether a rule names the object of a request, or none.
func names(rule *admissionregistration.NamedRuleWithOperations, a admission.Attributes) bool {
	return len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName())
}

// renamed is a request as if it were one for another resource.
type renamed struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

// GetResource returns the other resource.
func (r renamed) GetResource() schema.GroupVersionResource { return r.resource }
