package custom

import (
	"math"
	"slices"
	"unicode/utf8"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// plain is a schema that says no more than of which type values are and within
// which simple bounds, as most parts of most schemas do. What it accepts, upstream's
// validator accepts; what it does not accept is for the validator, which is ten
// times slower, to judge and to find the words for.
type plain struct {
	kind       string // "object", "array", "string", "integer", "number", "boolean", "int or string", "" any
	nullable   bool
	properties map[string]*plain
	additional *plain // nil: unknown members are not looked at
	items      *plain
	required   []string
	enum       []string
	// least and most are the bounds of a number, of the characters of a string, or of
	// the items of a list.
	least, most float64
}

// exact is up to where an integer is the same as a float64.
const exact = 1 << 53

// plainOf returns nil for a schema that says more.
func plainOf(s *structuralschema.Structural) *plain {
	if s.XEmbeddedResource || s.XListType != nil && *s.XListType != "atomic" {
		return nil
	}
	p := &plain{kind: s.Type, nullable: s.Nullable, least: math.Inf(-1), most: math.Inf(1)}
	if s.XIntOrString {
		p.kind = "int or string"
	}
	if s.ValueValidation != nil && !p.bound(*s.ValueValidation) {
		return nil
	}
	for name, property := range s.Properties {
		child := plainOf(&property)
		if child == nil {
			return nil
		}
		if p.properties == nil {
			p.properties = map[string]*plain{}
		}
		p.properties[name] = child
	}
	if s.Items != nil {
		if p.items = plainOf(s.Items); p.items == nil {
			return nil
		}
	}
	if s.AdditionalProperties != nil {
		if s.AdditionalProperties.Structural == nil {
			return nil
		}
		if p.additional = plainOf(s.AdditionalProperties.Structural); p.additional == nil {
			return nil
		}
	}
	return p
}

// bound takes the simple bounds of v; false: there are others.
func (p *plain) bound(v structuralschema.ValueValidation) bool {
	set := func(to *float64, from *int64) {
		if from != nil {
			*to = float64(*from)
		}
	}
	switch p.kind {
	case "string":
		set(&p.least, v.MinLength)
		set(&p.most, v.MaxLength)
		v.MinLength, v.MaxLength = nil, nil
	case "array":
		set(&p.least, v.MinItems)
		set(&p.most, v.MaxItems)
		v.MinItems, v.MaxItems = nil, nil
	case "integer", "number":
		if v.Minimum != nil {
			p.least = *v.Minimum
		}
		if v.Maximum != nil {
			p.most = *v.Maximum
		}
		if v.ExclusiveMinimum || v.ExclusiveMaximum {
			return false
		}
		v.Minimum, v.Maximum = nil, nil
		switch {
		case p.kind == "integer" && v.Format == "int32":
			p.least, p.most = max(p.least, math.MinInt32), min(p.most, math.MaxInt32)
			v.Format = ""
		case p.kind == "integer" && v.Format == "int64":
			v.Format = ""
		}
	}
	for _, e := range v.Enum {
		text, is := e.Object.(string)
		if !is || p.kind != "string" {
			return false
		}
		p.enum = append(p.enum, text)
	}
	p.required = v.Required
	v.Enum, v.Required = nil, nil
	return v.Format == "" && v.Pattern == "" && v.Maximum == nil && v.Minimum == nil && v.MaxLength == nil && v.MinLength == nil &&
		v.MaxItems == nil && v.MinItems == nil && !v.UniqueItems && v.MultipleOf == nil && v.MaxProperties == nil && v.MinProperties == nil &&
		len(v.AllOf)+len(v.OneOf)+len(v.AnyOf) == 0 && v.Not == nil && !v.ExclusiveMaximum && !v.ExclusiveMinimum
}

// accepts says that a value is certainly valid.
func (p *plain) accepts(value any) bool {
	switch v := value.(type) {
	case nil: // an enum that does not have null forbids it all the same
		return p.nullable && p.enum == nil && p.unbounded()
	case map[string]any:
		return (p.kind == "object" || p.kind == "") && p.acceptsObject(v)
	case []any:
		if p.kind != "array" && p.kind != "" || !p.within(float64(len(v))) {
			return false
		}
		return p.items == nil || !slices.ContainsFunc(v, func(item any) bool { return !p.items.accepts(item) })
	case string:
		switch p.kind {
		case "string":
			return (p.unbounded() || p.within(float64(utf8.RuneCountInString(v)))) && (p.enum == nil || slices.Contains(p.enum, v))
		case "int or string", "":
			return true
		}
	case int64:
		switch p.kind {
		case "integer", "number":
			return -exact < v && v < exact && p.within(float64(v))
		case "int or string", "":
			return true
		}
	case float64:
		return p.kind == "number" && p.within(v) || p.kind == ""
	case bool:
		return p.kind == "boolean" || p.kind == ""
	}
	return false
}

func (p *plain) unbounded() bool { return math.IsInf(p.least, -1) && math.IsInf(p.most, 1) }

func (p *plain) within(n float64) bool { return p.least <= n && n <= p.most }

func (p *plain) acceptsObject(o map[string]any) bool {
	for _, name := range p.required {
		if o[name] == nil {
			return false
		}
	}
	for name, value := range o {
		child := p.properties[name]
		if child == nil {
			child = p.additional
		}
		if child != nil && !child.accepts(value) {
			return false
		}
	}
	return true
}
