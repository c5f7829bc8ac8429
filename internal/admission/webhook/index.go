package webhook

import "github.com/gapless-io/gapless/internal/admission/match"

// index has the hooks whose rules match, for one state of the configurations. It fills itself as
// it is asked.
type index struct {
	of                   *configurations
	mutating, validating []*hooked
	known                match.Memory[candidates]
}

// candidates are the hooks whose rules may match a question.
type candidates struct{ mutating, validating []candidate }

// candidate is a hook whose rules may match.
type candidate struct {
	*hooked
	place int // among all hooks, for audit annotations
	plan  *match.Plan
}

// current returns the index of the present state.
func (p *Plugin) current() *index {
	of := p.configurations.Load()
	if i := p.index.Load(); i != nil && i.of == of {
		return i
	}
	i := &index{of: of, mutating: sorted(of.mutating, p.logger), validating: sorted(of.validating, p.logger)}
	p.index.Store(i)
	return i
}

// find returns the hooks for a question; nil if there is none.
func (p *Plugin) find(q match.Question) *candidates {
	i := p.current()
	if len(i.mutating)+len(i.validating) == 0 || match.ExemptFromWebhooks(q.Resource.GroupResource()) {
		return nil
	}
	return i.known.Of(p.live.Load(), q, func() *candidates {
		return &candidates{mutating: p.planned(i.mutating, q), validating: p.planned(i.validating, q)}
	})
}

// planned returns the hooks of which a rule may match.
func (p *Plugin) planned(hooks []*hooked, q match.Question) []candidate {
	var found []candidate
	for place, h := range hooks {
		if plan := p.match.Plan(h.criteria, q); plan != nil {
			found = append(found, candidate{hooked: h, place: place, plan: plan})
		}
	}
	return found
}
