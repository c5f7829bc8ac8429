package fieldmanager

import (
	"cmp"
	"slices"
	"sync"

	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// shape is a type of a schema, resolved, and the shapes of what is in it, which the library looks
// up and copies each time. It is safe for concurrent use.
type shape struct {
	smdschema.Atom // empty if the schema does not have the type

	in      *shapes
	found   sync.Once
	members jsontree.Names[member] // those of a map that the schema names
	other   *member                // every other member of a map
	items   *shape                 // the items of a list; nil if it is none
}

// shapes are those of a schema that were needed. There is one for each name, so that types which
// contain themselves have an end.
type shapes struct {
	schema *smdschema.Schema

	mu    sync.Mutex
	named map[typeName]*shape // guarded by mu
}

// typeName is the name of a type, with the relationship of its elements if that is another one here.
type typeName struct {
	of           string
	relationship smdschema.ElementRelationship
}

// shapeOf returns the shape of a kind; nil if it has no schema, or is not a map of members.
func shapeOf(t *typed.ParseableType) *shape {
	if t == nil {
		return nil
	}
	in := &shapes{schema: t.Schema, named: map[typeName]*shape{}}
	if root := in.of(t.TypeRef); root.Map != nil && root.Map.ElementRelationship != smdschema.Atomic {
		return root
	}
	return nil
}

func (s *shapes) of(ref smdschema.TypeRef) *shape {
	if ref.NamedType == nil {
		return s.resolve(ref)
	}
	n := typeName{of: *ref.NamedType}
	if ref.ElementRelationship != nil {
		n.relationship = *ref.ElementRelationship
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.named[n] == nil {
		s.named[n] = s.resolve(ref)
	}
	return s.named[n]
}

func (s *shapes) resolve(ref smdschema.TypeRef) *shape {
	atom, known := s.schema.Resolve(ref)
	if !known {
		atom = smdschema.Atom{}
	}
	return &shape{Atom: atom, in: s}
}

// known reports whether the schema has the type.
func (s *shape) known() bool { return s.Scalar != nil || s.List != nil || s.Map != nil }

func (s *shape) find() {
	if s.Map != nil {
		members := make(map[string]*member, len(s.Fields))
		fields := slices.SortedFunc(slices.Values(s.Fields), func(a, b smdschema.StructField) int {
			return cmp.Compare(a.Name, b.Name)
		})
		for rank, field := range fields {
			members[field.Name] = &member{
				in: s.in.of(field.Type), label: string(appendField(nil, field.Name)), rank: rank,
			}
		}
		s.members = jsontree.NamesOf(members)
		s.other = &member{in: s.in.of(s.Map.ElementType), rank: -1}
	}
	if s.List != nil { // besides: a value without a type may be either
		s.items = s.in.of(s.List.ElementType)
	}
}

// member is what a schema says of a member of a map, or of all those that it does not name.
type member struct {
	in    *shape
	label string // the name in FieldsV1, with the colon; "": it is another one's
	rank  int    // among those that are named, in the order of their names; -1: it is another one's
}

// member returns the shape of a member of a map.
func (s *shape) member(name string) (of *shape, declared bool) {
	m := s.about(name)
	if m == nil {
		return nil, false
	}
	return m.in, m.rank >= 0
}

// about returns what the schema says of a member of a map; nil of what is no map.
func (s *shape) about(name string) *member {
	s.found.Do(s.find)
	if m := s.members.Get(name); m != nil {
		return m
	}
	return s.other
}

// item returns the shape of the items of a list.
func (s *shape) item() *shape {
	s.found.Do(s.find)
	return s.items
}
