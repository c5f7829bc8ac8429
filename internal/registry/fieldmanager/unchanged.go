package fieldmanager

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/gapless-io/gapless/internal/schema/jsontree"
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
	if !is || !also || f.typ == nil || live["apiVersion"] != f.version || config["apiVersion"] != f.version || live["kind"] != config["kind"] {
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
	all, ok := f.included(live, config)
	return ok && all.equal(before)
}

// appliedBy returns the fields that a manager has applied.
func (f *fieldManager) appliedBy(stored []any, manager string) (set fieldSet, is bool) {
	for _, item := range stored {
		e, _ := item.(map[string]any)
		subresource, _ := e["subresource"].(string)
		if e["operation"] == string(metav1.ManagedFieldsOperationApply) && e["manager"] == manager && subresource == f.subresource {
			set, is = e["fieldsV1"].(map[string]any)
			return set, is
		}
	}
	return nil, false
}

// included returns the fields of a configuration, if a live object has the same values there.
func (f *fieldManager) included(live, config map[string]any) (all fields, ok bool) {
	w := walker{schema: f.typ.Schema}
	root, known := w.schema.Resolve(f.typ.TypeRef)
	if !known || root.Map == nil || root.Map.ElementRelationship == smdschema.Atomic {
		return all, false
	}
	for name, member := range config {
		if name == "apiVersion" || name == "kind" {
			continue
		}
		has, is := live[name]
		of, ok := w.included(w.typeOf(root.Map, name), has, member)
		if !is || !ok {
			return all, false
		}
		if f.ignored[name] {
			continue
		}
		if name == "metadata" {
			kept := of.below[:0]
			for _, field := range of.below {
				if !stripped(field.name) && !f.ignoredMeta[field.name] {
					kept = append(kept, field)
				}
			}
			of = fields{below: kept}
		}
		all.put(field{name: name, fields: of})
	}
	all.sort()
	return all, true
}

// included returns the fields of a value of a configuration (structured-merge-diff ToFieldSet), if
// the live value has the same values there, so that merging changes nothing.
func (w walker) included(ref smdschema.TypeRef, live, config any) (of fields, ok bool) {
	atom, known := w.schema.Resolve(ref)
	if !known {
		return of, false
	}
	switch config := config.(type) {
	case map[string]any:
		has, is := live.(map[string]any)
		switch {
		case atom.Map == nil || !is:
			return of, false
		case atom.Map.ElementRelationship == smdschema.Atomic:
			return fields{own: true}, jsontree.Equal(live, config)
		case len(config) == 0:
			return fields{own: true}, true
		}
		return w.includedMembers(atom.Map, has, config)
	case []any:
		has, is := live.([]any)
		switch {
		case atom.List == nil || !is:
			return of, false
		case atom.List.ElementRelationship == smdschema.Atomic:
			return fields{own: true}, jsontree.Equal(live, config)
		case len(config) == 0:
			return of, true
		}
		return w.includedItems(atom.List, has, config)
	case nil:
		return fields{own: true}, live == nil
	}
	return fields{own: true}, atom.Scalar != nil && fits(*atom.Scalar, config) && jsontree.Equal(live, config)
}

func (w walker) includedMembers(m *smdschema.Map, live, config map[string]any) (of fields, ok bool) {
	of.below = make([]field, 0, len(config))
	for name, member := range config {
		has, is := live[name]
		if !is {
			return of, false
		}
		part, ok := w.included(w.typeOf(m, name), has, member)
		if !ok {
			return of, false
		}
		if _, declared := m.FindField(name); !declared {
			part.own = true
		}
		of.put(field{name: name, fields: part})
	}
	of.sort()
	return of, true
}

// includedItems is included for a list whose items have keys, or are themselves keys. The
// items must be in the live list in the same order.
func (w walker) includedItems(l *smdschema.List, live, config []any) (of fields, ok bool) {
	of.below = make([]field, 0, len(config))
	next := 0
	for _, item := range config {
		name, ok := w.element(l, item)
		if !ok {
			return of, false
		}
		for ; ; next++ {
			if next == len(live) {
				return of, false
			}
			if other, ok := w.element(l, live[next]); !ok {
				return of, false
			} else if other == name {
				break
			}
		}
		part, ok := w.included(l.ElementType, live[next], item)
		if !ok {
			return of, false
		}
		part.own = true
		of.put(field{name: name, item: true, fields: part})
		next++
	}
	for ; next < len(live); next++ {
		name, ok := w.element(l, live[next])
		if !ok || of.has(name) {
			return of, false // a duplicate
		}
	}
	of.sort()
	return of, true
}
