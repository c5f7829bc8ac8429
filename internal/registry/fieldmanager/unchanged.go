package fieldmanager

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// unchanged reports whether applying a configuration certainly changes nothing: the live object
// has all its values, and its manager has applied the same fields before, and only these.
// Controllers apply what they want again and again; upstream's library merges, compares and
// encodes all of it each time. As with updated, a schema that has changed since is noticed when
// something else changes.
func (f *fieldManager) unchanged(live map[string]any, c Configuration) bool {
	config := c.Object.Object
	liveMeta, is := live["metadata"].(map[string]any)
	meta, also := config["metadata"].(map[string]any)
	if !is || !also || f.root == nil || live["apiVersion"] != f.version || config["apiVersion"] != f.version ||
		live["kind"] != config["kind"] {
		return false
	}
	annotations, _ := liveMeta["annotations"].(map[string]any)
	if _, clientSide := annotations[corev1.LastAppliedConfigAnnotation]; clientSide {
		return false // which the library may have to change
	}
	stored, is := liveMeta["managedFields"].([]any)
	if _, has := meta["managedFields"]; !is || has {
		return false
	}
	if _, ok := f.readable(stored, ""); !ok {
		return false
	}
	before, is := f.appliedBy(stored, c.Manager)
	if !is {
		return false
	}
	w := inclusion{}
	all, ok := f.included(w, place{live: live, config: config, filled: config})
	if !ok && f.fill != nil {
		filled := c.Object.DeepCopy()
		if f.fill(filled) != nil {
			return false
		}
		w.filled = true
		all, ok = f.included(w, place{live: live, config: config, filled: filled.Object, others: f.others(stored, c.Manager)})
	}
	return ok && all.equal(before)
}

// appliedBy returns the fields that a manager has applied.
func (f *fieldManager) appliedBy(stored []any, manager string) (set fieldSet, is bool) {
	for _, item := range stored {
		if e, _ := item.(map[string]any); f.isApplier(e, manager) {
			set, is = e["fieldsV1"].(map[string]any)
			return set, is
		}
	}
	return nil, false
}

// others returns the fields of all managers but one that applies.
func (f *fieldManager) others(stored []any, manager string) (sets []fieldSet) {
	for _, item := range stored {
		if e, _ := item.(map[string]any); !f.isApplier(e, manager) {
			set, _ := e["fieldsV1"].(map[string]any)
			sets = append(sets, set)
		}
	}
	return sets
}

func (f *fieldManager) isApplier(e map[string]any, manager string) bool {
	subresource, _ := e["subresource"].(string)
	return e["operation"] == string(metav1.ManagedFieldsOperationApply) && e["manager"] == manager && subresource == f.subresource
}

// inclusion compares configurations with live objects.
type inclusion struct {
	// filled says that the configuration has its defaults in a copy. What is replaced as a whole
	// lacks them after the merge, and gets them back afterwards.
	filled bool
}

// place is a place in a configuration.
type place struct {
	live, config, filled any
	others               []fieldSet // what other managers have there; only with inclusion.filled
}

// below is the place of a member or an item that both have.
func (p place) below(name string, live, config, filled any) place {
	next := place{live: live, config: config, filled: filled}
	for _, set := range p.others {
		if of, is := set[name].(map[string]any); is {
			next.others = append(next.others, of)
		}
	}
	return next
}

// included returns the fields of a configuration, if a live object has the same values there.
func (f *fieldManager) included(w inclusion, p place) (all fields, ok bool) {
	config, is := p.config.(map[string]any)
	if !is {
		return all, false
	}
	for name := range config {
		if name == "apiVersion" || name == "kind" {
			continue
		}
		of, _, ok := w.member(f.root, p, name)
		if !ok {
			return all, false
		}
		if f.ignored[name] {
			continue
		}
		if name == "metadata" {
			of = fields{
				below: slices.DeleteFunc(of.below, func(part field) bool {
					return stripped(part.name) || f.ignoredMeta[part.name]
				}),
			}
		}
		all.put(field{name: name, fields: of})
	}
	all.sort()
	return all, true
}

// member returns the fields of a member of an object in a configuration, and whether its type is declared.
func (w inclusion) member(s *shape, p place, name string) (of fields, declared, ok bool) {
	live, _ := p.live.(map[string]any)
	config, _ := p.config.(map[string]any)
	filled, _ := p.filled.(map[string]any)
	has, is := live[name]
	if !is {
		return of, false, false
	}
	in, declared := s.member(name)
	of, ok = w.value(in, p.below("f:"+name, has, config[name], filled[name]))
	return of, declared, ok
}

// value returns the fields of a value of a configuration (structured-merge-diff ToFieldSet), if
// the live value has the same values there, so that merging changes nothing.
func (w inclusion) value(s *shape, p place) (of fields, ok bool) {
	switch config := p.config.(type) {
	case map[string]any:
		_, is := p.live.(map[string]any)
		switch {
		case s.Map == nil || !is:
			return of, false
		case s.Map.ElementRelationship == smdschema.Atomic:
			return fields{own: true}, w.same(p)
		case len(config) == 0:
			return fields{own: true}, true
		}
		return w.members(s, p, config)
	case []any:
		_, is := p.live.([]any)
		switch {
		case s.List == nil || !is:
			return of, false
		case s.List.ElementRelationship == smdschema.Atomic:
			return fields{own: true}, w.same(p)
		case len(config) == 0:
			return of, true
		}
		return w.items(s, p)
	case nil:
		return fields{own: true}, s.known() && p.live == nil
	}
	return fields{own: true}, s.Scalar != nil && fits(*s.Scalar, p.config) && jsontree.Equal(p.live, p.config)
}

// same compares what is replaced as a whole. If it differs in defaults the merge changes it, for
// a moment: then no other manager may have it, who would lose it, or a conflict.
func (w inclusion) same(p place) bool {
	if jsontree.Equal(p.live, p.config) {
		return true
	}
	return w.filled && len(p.others) == 0 && jsontree.Equal(p.live, p.filled)
}

func (w inclusion) members(s *shape, p place, config map[string]any) (of fields, ok bool) {
	of.below = make([]field, 0, len(config))
	for name := range config {
		part, declared, ok := w.member(s, p, name)
		if !ok {
			return of, false
		}
		if !declared {
			part.own = true
		}
		of.put(field{name: name, fields: part})
	}
	of.sort()
	return of, true
}

// items is members for a list whose items have keys, or are themselves keys. The items must be in
// the live list in the same order.
func (w inclusion) items(s *shape, p place) (of fields, ok bool) {
	live, _ := p.live.([]any)
	config, _ := p.config.([]any)
	filled, _ := p.filled.([]any)
	if len(filled) != len(config) {
		return of, false
	}
	of.below = make([]field, 0, len(config))
	next := 0
	for i, item := range config {
		name, ok := s.element(item)
		if !ok {
			return of, false
		}
		for ; ; next++ {
			if next == len(live) {
				return of, false
			}
			if other, ok := s.element(live[next]); !ok {
				return of, false
			} else if other == name {
				break
			}
		}
		part, ok := w.value(s.item(), p.below(name, live[next], item, filled[i]))
		if !ok {
			return of, false
		}
		part.own = true
		of.put(field{name: name, item: true, fields: part})
		next++
	}
	for ; next < len(live); next++ {
		name, ok := s.element(live[next])
		if !ok || of.has(name) {
			return of, false // a duplicate
		}
	}
	of.sort()
	return of, true
}
