package custom

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/gapless-io/gapless/internal/schema"
)

// amount is a size in bytes and parts.
type amount struct {
	bytes int // of JSON, about
	parts int // objects and lists
}

// enough is more than any object may have: counting stops there.
func (a amount) enough() bool { return a.bytes > schema.MaxObjectBytes || a.parts > schema.MaxParts }

func (a amount) plus(b amount) amount { return amount{a.bytes + b.bytes, a.parts + b.parts} }

// growth is what the defaults of a schema add to a value. It follows upstream's
// defaulting.Default step by step, and changes nothing.
type growth struct {
	// inserted is the default of a missing value; nil: there is none.
	inserted   *amount
	nullable   bool
	properties map[string]*growth
	additional *growth
	items      *growth
}

// growthOf returns nil for a schema without defaults.
func growthOf(s *structuralschema.Structural) *growth {
	if s == nil {
		return nil
	}
	g := &growth{nullable: s.Nullable, items: growthOf(s.Items)}
	for name, property := range s.Properties {
		if child := growthOf(&property); child != nil {
			if g.properties == nil {
				g.properties = map[string]*growth{}
			}
			g.properties[name] = child
		}
	}
	if s.AdditionalProperties != nil {
		g.additional = growthOf(s.AdditionalProperties.Structural)
	}
	if s.Default.Object != nil {
		whole := sizeOf(s.Default.Object).plus(g.of(s.Default.Object))
		g.inserted = &whole
	}
	if g.inserted == nil && g.properties == nil && g.additional == nil && g.items == nil {
		return nil
	}
	return g
}

// of returns how much defaulting adds to a value; no more than is needed to see that it
// is too much.
func (g *growth) of(value any) (added amount) {
	if g == nil {
		return added
	}
	switch v := value.(type) {
	case map[string]any:
		for name, child := range g.properties {
			if _, found := v[name]; !found && child.inserted != nil {
				added = added.plus(*child.inserted).plus(amount{bytes: len(name) + len(`"":,`)})
			}
		}
		for name, item := range v {
			child := g.properties[name]
			if child == nil {
				child = g.additional
			}
			if added = added.plus(child.replaced(item)); added.enough() {
				return added
			}
		}
	case []any:
		for _, item := range v {
			if added = added.plus(g.items.replaced(item)); added.enough() {
				return added
			}
		}
	}
	return added
}

// replaced is of for an existing value: a null may be replaced by the default.
func (g *growth) replaced(value any) amount {
	if g != nil && value == nil && !g.nullable && g.inserted != nil {
		return *g.inserted
	}
	return g.of(value)
}

// sizeOf is the size of a default.
func sizeOf(value any) amount {
	switch v := value.(type) {
	case map[string]any:
		all := amount{bytes: len("{}"), parts: 1}
		for name, item := range v {
			all = all.plus(sizeOf(item)).plus(amount{bytes: len(name) + len(`"":,`)})
		}
		return all
	case []any:
		all := amount{bytes: len("[]"), parts: 1}
		for _, item := range v {
			all = all.plus(sizeOf(item)).plus(amount{bytes: len(",")})
		}
		return all
	case string:
		return amount{bytes: len(v) + len(`""`)}
	}
	return amount{bytes: len("false")}
}

// onlyDefaults returns a schema that fills in the same defaults, with nothing else in it; nil
// for one without defaults.
func onlyDefaults(s *structuralschema.Structural) *structuralschema.Structural {
	if s == nil {
		return nil
	}
	left := &structuralschema.Structural{Items: onlyDefaults(s.Items)}
	left.Nullable, left.Default = s.Nullable, s.Default
	for name, property := range s.Properties {
		child := onlyDefaults(&property)
		if child == nil && s.AdditionalProperties == nil {
			continue
		}
		if child == nil {
			child = &structuralschema.Structural{} // additionalProperties do not hold for it
		}
		if left.Properties == nil {
			left.Properties = map[string]structuralschema.Structural{}
		}
		left.Properties[name] = *child
	}
	if s.AdditionalProperties != nil {
		if child := onlyDefaults(s.AdditionalProperties.Structural); child != nil {
			left.AdditionalProperties = &structuralschema.StructuralOrBool{Structural: child}
		}
	}
	if left.Default.Object == nil && left.Properties == nil && left.AdditionalProperties == nil && left.Items == nil {
		return nil
	}
	return left
}
