package webhook

import (
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/gapless-io/gapless/internal/schema"
)

// index has the hooks whose rules match, for one state of the configurations and the catalog. It
// fills itself as it is asked.
type index struct {
	of                   *configurations
	catalog              *schema.Catalog
	mutating, validating []*hooked
	// known has *candidates by question. There are no more questions than resources of the
	// catalog with their subresources and operations.
	known sync.Map
}

// question is what decides whether rules match.
type question struct {
	resource    schema.GroupVersionResource
	subresource string
	operation   upstream.Operation
	namespaced  bool
}

// candidates are the hooks whose rules match a question.
type candidates struct {
	mutating, validating []candidate
	// resource is that of the question; nil if it is not served any more.
	resource *schema.Resource
}

// candidate is a hook whose rules match.
type candidate struct {
	*hooked
	place int // among all hooks, for audit annotations
	// gvr and kind are what the webhook wants. as is its version if that is not the request's.
	gvr  schema.GroupVersionResource
	kind schema.GroupVersionKind // empty: the request's
	as   *schema.Resource
}

// current returns the index of the present state.
func (p *Plugin) current() *index {
	of, catalog := p.configurations.Load(), p.live.Load()
	if i := p.index.Load(); i != nil && i.of == of && i.catalog == catalog {
		return i
	}
	i := &index{of: of, catalog: catalog, mutating: sorted(of.mutating, p.logger), validating: sorted(of.validating, p.logger)}
	p.index.Store(i)
	return i
}

// find returns the hooks for a question.
func (i *index) find(q question) *candidates {
	if found, is := i.known.Load(q); is {
		return found.(*candidates) //nolint:forcetypeassert // there is nothing else in it
	}
	found := &candidates{}
	if r, is := i.catalog.Lookup(q.resource); is {
		found.resource = r
		if !excluded(r) {
			found.mutating = i.match(i.mutating, r, q)
			found.validating = i.match(i.validating, r, q)
		}
		i.known.Store(q, found)
	}
	return found
}

// excluded reports whether no webhook is asked about a resource: configurations of admission, so
// that they can be repaired, and questions about callers (kube-apiserver
// pkg/kubeapiserver/admission/exclusion, rules.IsExemptAdmissionConfigurationResource).
func excluded(r *schema.Resource) bool {
	switch r.Group {
	case group:
		return rules.IsExemptAdmissionConfigurationResource(&matched{kind: r.GVK()})
	case "authentication.k8s.io":
		return r.Plural == "selfsubjectreviews" || r.Plural == "tokenreviews"
	case "authorization.k8s.io":
		switch r.Plural {
		case "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews":
			return true
		}
	}
	return false
}

// matched are attributes of which rules read some.
type matched struct {
	upstream.Attributes
	question question
	kind     schema.GroupVersionKind
}

// GetResource implements admission.Attributes.
func (m *matched) GetResource() schema.GroupVersionResource { return m.question.resource }

// GetSubresource implements admission.Attributes.
func (m *matched) GetSubresource() string { return m.question.subresource }

// GetOperation implements admission.Attributes.
func (m *matched) GetOperation() upstream.Operation { return m.question.operation }

// GetKind implements admission.Attributes.
func (m *matched) GetKind() schema.GroupVersionKind { return m.kind }

// GetNamespace implements admission.Attributes. Which namespace it is does not matter to rules.
func (m *matched) GetNamespace() string {
	if m.question.namespaced {
		return "default"
	}
	return ""
}

// match returns the hooks of which a rule matches, as generic.Webhook.ShouldCallHook.
func (i *index) match(hooks []*hooked, r *schema.Resource, q question) []candidate {
	var found []candidate
	var others []*schema.Resource
	for place, h := range hooks {
		if ruled(h.Rules, q) {
			found = append(found, candidate{hooked: h, place: place, gvr: q.resource})
			continue
		}
		if h.MatchPolicy == nil || *h.MatchPolicy != admissionregistrationv1.Equivalent {
			continue
		}
		if others == nil {
			others = i.equivalents(r, q.subresource)
		}
		if other := ruledOther(h.Rules, others, q); other != nil {
			c := candidate{hooked: h, place: place, gvr: other.GVR(), as: other, kind: other.GVK()}
			if sub := other.Subresource(q.subresource); sub != nil {
				c.kind, c.as = sub.Kind, nil
			} else if q.subresource == "scale" {
				c.kind, c.as = schema.GroupVersionKind{}, nil // Scale has one version
			}
			found = append(found, c)
		}
	}
	return found
}

// ruled reports whether a rule matches a question.
func ruled(all []admissionregistrationv1.RuleWithOperations, q question) bool {
	for _, rule := range all {
		m := rules.Matcher{Rule: rule, Attr: &matched{question: q}}
		if m.Matches() {
			return true
		}
	}
	return false
}

// ruledOther returns the version that the first rule matches that matches one.
func ruledOther(all []admissionregistrationv1.RuleWithOperations, others []*schema.Resource, q question) *schema.Resource {
	for _, rule := range all {
		for _, other := range others {
			asked := q
			asked.resource = other.GVR()
			m := rules.Matcher{Rule: rule, Attr: &matched{question: asked}}
			if m.Matches() {
				return other
			}
		}
	}
	return nil
}

// equivalents returns the other versions and groups under which the objects of a resource are
// served, with a subresource.
func (i *index) equivalents(r *schema.Resource, subresource string) []*schema.Resource {
	others := []*schema.Resource{}
	home := r.Home().GR()
	for _, other := range i.catalog.Resources() {
		if other.GVR() == r.GVR() || other.Home().GR() != home {
			continue
		}
		has := other.Subresource(subresource) != nil
		switch subresource {
		case "":
			has = true
		case "status":
			has = has || other.HasStatus
		case "scale":
			has = has || other.Scale != nil
		}
		if has {
			others = append(others, other)
		}
	}
	return others
}
