package custom

import (
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds"
)

// amount is a size in bytes and parts.
type amount struct {
	bytes int // of JSON, about
	parts int // objects and lists
}

// enough is more than any object may have: counting stops there.
func (a amount) enough() bool { return a.bytes > kinds.MaxObjectBytes || a.parts > kinds.MaxParts }

func (a amount) plus(b amount) amount { return amount{a.bytes + b.bytes, a.parts + b.parts} }

// growth is what the defaults of a schema add to a value. It has only the parts of the schema
// that have defaults: upstream's defaulting.Default visits, and copies, every property.
type growth struct {
	// inserted is the size of the default of a missing value; nil: there is none. value is
	// the default.
	inserted   *amount
	value      any
	nullable   bool
	properties []grown
	// additional is for the properties that are not declared.
	additional *growth
	declared   map[string]bool // only beside additional
	items      *growth
}

// grown is one property that defaults add to.
type grown struct {
	*growth

	name string
}

// growthOf returns nil for a schema without defaults.
func growthOf(s *structuralschema.Structural) *growth {
	if s == nil {
		return nil
	}
	g := &growth{nullable: s.Nullable, items: growthOf(s.Items)}
	for name, property := range s.Properties {
		if child := growthOf(&property); child != nil {
			g.properties = append(g.properties, grown{child, name})
		}
	}
	if s.AdditionalProperties != nil {
		g.additional = growthOf(s.AdditionalProperties.Structural)
	}
	if g.additional != nil && len(s.Properties) > 0 {
		g.declared = map[string]bool{}
		for name := range s.Properties {
			g.declared[name] = true
		}
	}
	if s.Default.Object != nil {
		whole := sizeOf(s.Default.Object).plus(g.of(s.Default.Object))
		g.inserted, g.value = &whole, s.Default.Object
	}
	if g.inserted == nil && g.properties == nil && g.additional == nil && g.items == nil {
		return nil
	}
	return g
}

// of returns how much fill adds to a value; no more than is needed to see that it is too
// much. It changes nothing.
func (g *growth) of(value any) (added amount) {
	if g == nil {
		return added
	}
	switch v := value.(type) {
	case map[string]any:
		for _, child := range g.properties {
			item, found := v[child.name]
			switch {
			case found:
				added = added.plus(child.replaced(item))
			case child.inserted != nil:
				added = added.plus(*child.inserted).plus(amount{bytes: len(child.name) + len(`"":,`)})
			}
			if added.enough() {
				return added
			}
		}
		if g.additional == nil {
			return added
		}
		for name, item := range v {
			if g.declared[name] {
				continue
			}
			if added = added.plus(g.additional.replaced(item)); added.enough() {
				return added
			}
		}
	case []any:
		if g.items == nil {
			return added
		}
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
	if value == nil && !g.nullable && g.inserted != nil {
		return *g.inserted
	}
	return g.of(value)
}

// fill fills the defaults in, as upstream's defaulting.Default does.
func (g *growth) fill(value any) {
	if g == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, child := range g.properties {
			item, found := v[child.name]
			if (!found || item == nil && !child.nullable) && child.inserted != nil {
				item = runtime.DeepCopyJSONValue(child.value)
				v[child.name] = item
			}
			child.fill(item)
		}
		if g.additional == nil {
			return
		}
		for name, item := range v {
			if !g.declared[name] {
				v[name] = g.additional.filled(item)
			}
		}
	case []any:
		if g.items == nil {
			return
		}
		for i, item := range v {
			v[i] = g.items.filled(item)
		}
	}
}

// filled returns an existing value with the defaults, or the default in its place.
func (g *growth) filled(value any) any {
	if value == nil && !g.nullable {
		value = runtime.DeepCopyJSONValue(g.value)
	}
	g.fill(value)
	return value
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
