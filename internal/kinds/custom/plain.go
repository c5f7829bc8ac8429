package custom

import (
	"math"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// plain is a schema that says no more than of which type values are, within which simple
// bounds, and by which keys lists are maps, as most schemas do. What it accepts, upstream's
// validator accepts; the validator, which is ten times slower, checks what it does not
// accept, and has the error texts.
type plain struct {
	kind       string // "object", "array", "string", "integer", "number", "boolean", "int or string", "" any
	nullable   bool
	properties map[string]*plain
	additional *plain // nil: unknown members are not checked
	items      *plain
	required   []string
	enum       []string
	pattern    *regexp.Regexp
	dateTime   bool // format: date-time
	// least and most are the bounds of a number, of the characters of a string, or of
	// the items of a list.
	least, most float64
	// unique says that the items of a list differ, or if keys are given, that these do.
	unique bool
	keys   []string
}

// exact is up to where an integer is the same as a float64.
const exact = 1 << 53

// plainOf returns nil for a schema with other keywords.
func plainOf(s *structuralschema.Structural) *plain {
	if s.XEmbeddedResource {
		return nil
	}
	p := &plain{kind: s.Type, nullable: s.Nullable, least: math.Inf(-1), most: math.Inf(1)}
	if s.XIntOrString {
		p.kind = "int or string"
	}
	if s.XListType != nil && *s.XListType != "atomic" {
		p.unique, p.keys = true, s.XListMapKeys
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
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		if p.additional = plainOf(s.AdditionalProperties.Structural); p.additional == nil {
			return nil
		}
	}
	return p
}

// bound reads the simple bounds of v; false: it has others.
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
		if v.Format == "date-time" {
			v.Format, p.dateTime = "", true
		}
		if pattern, err := regexp.Compile(v.Pattern); err == nil && v.Pattern != "" {
			v.Pattern, p.pattern = "", pattern
		}
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
	return v.Format == "" && v.Pattern == "" && v.Maximum == nil && v.Minimum == nil && v.MaxLength == nil &&
		v.MinLength == nil &&
		v.MaxItems == nil && v.MinItems == nil && !v.UniqueItems && v.MultipleOf == nil && v.MaxProperties == nil &&
		v.MinProperties == nil &&
		len(v.AllOf)+len(v.OneOf)+len(v.AnyOf) == 0 && v.Not == nil && !v.ExclusiveMaximum && !v.ExclusiveMinimum
}

// accepts reports whether a value is certainly valid.
func (p *plain) accepts(value any) bool {
	switch v := value.(type) {
	case nil: // an enum that does not have null forbids it all the same
		return p.nullable && p.enum == nil && p.unbounded() && p.pattern == nil && !p.dateTime
	case map[string]any:
		return (p.kind == "object" || p.kind == "") && p.acceptsObject(v)
	case []any:
		if p.kind != "array" && p.kind != "" || !p.within(float64(len(v))) {
			return false
		}
		if p.unique && !differ(v, p.keys) {
			return false
		}
		return p.items == nil || !slices.ContainsFunc(v, func(item any) bool { return !p.items.accepts(item) })
	case string:
		switch p.kind {
		case "string":
			return p.acceptsString(v)
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

func (p *plain) acceptsString(s string) bool {
	if !p.unbounded() && !p.within(float64(utf8.RuneCountInString(s))) || p.enum != nil && !slices.Contains(p.enum, s) {
		return false
	}
	if p.dateTime {
		// The format allows more.
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return false
		}
	}
	return p.pattern == nil || p.pattern.MatchString(s)
}

// compared is how many items differ compares with each other.
const compared = 32

// differ reports whether the items of a list certainly differ, or if keys are given, whether
// these do. It compares strings only.
func differ(list []any, keys []string) bool {
	if len(list) > compared {
		return false
	}
	for i, item := range list {
		for _, other := range list[:i] {
			if !differInOne(item, other, keys) {
				return false
			}
		}
	}
	return true
}

// differInOne reports whether two items have a key whose values are different strings.
func differInOne(a, b any, keys []string) bool {
	if keys == nil {
		return differentStrings(a, b)
	}
	first, _ := a.(map[string]any)
	second, _ := b.(map[string]any)
	return slices.ContainsFunc(keys, func(key string) bool { return differentStrings(first[key], second[key]) })
}

func differentStrings(a, b any) bool {
	first, is := a.(string)
	second, too := b.(string)
	return is && too && first != second
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
