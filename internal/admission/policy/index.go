package policy

import (
	"cmp"
	"log/slog"
	"slices"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// The resources that a plugin follows.
const (
	validatingPolicies = "validatingadmissionpolicies"
	validatingBindings = "validatingadmissionpolicybindings"
	mutatingPolicies   = "mutatingadmissionpolicies"
	mutatingBindings   = "mutatingadmissionpolicybindings"
)

// hook is a policy with those of its bindings that there are.
type hook struct {
	policy   *definition
	bindings []*binding
}

// candidate is a hook, and how requests for one resource match it.
type candidate struct {
	policy   *definition
	plan     *match.Plan // nil: the policy has no criteria
	bindings []bound
}

// bound is a binding, and how requests match it.
type bound struct {
	*binding
	plan *match.Plan // nil: as its policy, or there is an error
}

// index is the policies that have bindings, sorted by name, and which of them concern a
// resource. It is immutable, but for what it remembers.
type index struct {
	validating, mutating []hook
	known                match.Memory[candidates]
}

// candidates are the policies that concern a request by its resource and operation.
type candidates struct{ validating, mutating sifted }

// sifted are candidates, sorted by name, of which a request reaches those that its labels do not
// exclude.
type sifted struct {
	all   []candidate
	sieve match.Sieve
}

// sift prepares candidates.
func sift(all []candidate) sifted {
	s := sifted{all: all}
	for i := range all {
		s.sieve.Add(i, all[i].needs())
	}
	return s
}

// needs returns labels of which a request must have one; otherwise it has no invocations of the
// candidate, nor problems with it. None: it may have some without labels.
func (c *candidate) needs() []match.Need {
	if c.plan == nil {
		return nil
	}
	if need, is := c.plan.Need(); is {
		return []match.Need{need}
	}
	if c.plan.Fails() || c.policy.paramKind != nil {
		return nil // an error of the policy does not depend on bindings
	}
	var all []match.Need
	for _, b := range c.bindings {
		if b.plan == nil {
			return nil
		}
		need, is := b.plan.Need()
		if !is {
			return nil
		}
		all = append(all, need)
	}
	return all
}

// Follows returns the resources of policies and bindings.
func (*Plugin) Follows() []kinds.GroupResource {
	return match.Policies()
}

// Replace gets all objects of one of the resources.
func (p *Plugin) Replace(gr kinds.GroupResource, objects []*wire.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	family := p.familyOf(gr)
	switch gr.Resource {
	case validatingPolicies, mutatingPolicies:
		clear(family.policies)
	default:
		clear(family.bindings)
	}
	for _, o := range objects {
		p.changeLocked(gr, o, false)
	}
	p.current.Store(nil)
}

// Change gets one changed object. It is decoded later.
func (p *Plugin) Change(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeLocked(gr, o, deleted)
	p.current.Store(nil)
}

func (p *Plugin) changeLocked(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	family, name := p.familyOf(gr), o.Key().Name
	switch gr.Resource {
	case validatingPolicies, mutatingPolicies:
		delete(family.policies, name)
		if !deleted {
			family.policies[name] = &definition{name: name, object: o, mutates: gr.Resource == mutatingPolicies}
		}
	default:
		delete(family.bindings, name)
		if !deleted {
			family.bindings[name] = &binding{name: name, object: o}
		}
	}
}

func (p *Plugin) familyOf(gr kinds.GroupResource) *family {
	if gr.Resource == mutatingPolicies || gr.Resource == mutatingBindings {
		return &p.mutating
	}
	return &p.validating
}

// index returns the current index.
func (p *Plugin) index() *index {
	if current := p.current.Load(); current != nil {
		return current
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if current := p.current.Load(); current != nil {
		return current
	}
	made := &index{validating: p.hooks(&p.validating), mutating: p.hooks(&p.mutating)}
	p.current.Store(made)
	return made
}

// hooks returns the policies that have bindings. What cannot be decoded is left out: it was
// validated when it was written.
func (p *Plugin) hooks(f *family) []hook {
	by := map[string]*hook{}
	for _, b := range f.bindings {
		if err := b.decode(); err != nil {
			p.unreadable(b.name, err)
			continue
		}
		definition := f.policies[b.policy]
		if definition == nil {
			continue
		}
		if err := definition.decode(); err != nil {
			p.unreadable(definition.name, err)
			continue
		}
		h := by[b.policy]
		if h == nil {
			h = &hook{policy: definition}
			by[b.policy] = h
		}
		h.bindings = append(h.bindings, b)
	}
	all := make([]hook, 0, len(by))
	for _, h := range by {
		slices.SortFunc(h.bindings, func(a, b *binding) int { return cmp.Compare(a.name, b.name) })
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b hook) int { return cmp.Compare(a.policy.name, b.policy.name) })
	return all
}

func (p *Plugin) unreadable(name string, err error) {
	p.logger.Error("a policy or binding cannot be read, and has no effect", // no request has asked for it
		slog.String("name", name), slog.Any("error", err))
}

// candidates returns the policies that concern a request; nil if none does.
func (p *Plugin) candidates(q match.Question) *candidates {
	current := p.index()
	if len(current.validating) == 0 && len(current.mutating) == 0 || match.ExemptFromPolicies(q.Resource.GroupResource()) {
		return nil
	}
	return current.known.Of(p.live.Load(), q, func() *candidates {
		found := &candidates{validating: sift(p.concerned(current.validating, q))}
		if q.Operation != admission.Delete {
			found.mutating = sift(p.concerned(current.mutating, q))
		}
		return found
	})
}

// concerned returns the policies that concern a request, with the bindings that do.
func (p *Plugin) concerned(all []hook, asked match.Question) []candidate {
	var some []candidate
	for _, h := range all {
		c := candidate{policy: h.policy}
		if h.policy.criteria != nil {
			if c.plan = p.match.Plan(h.policy.criteria, asked); c.plan == nil {
				continue
			}
		}
		for _, b := range h.bindings {
			if b.criteria == nil {
				c.bindings = append(c.bindings, bound{binding: b})
			} else if plan := p.match.Plan(b.criteria, asked); plan != nil {
				c.bindings = append(c.bindings, bound{b, plan})
			}
		}
		if len(c.bindings) > 0 {
			some = append(some, c)
		}
	}
	return some
}
