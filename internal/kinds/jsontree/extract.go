package jsontree

import (
	"maps"
	"strings"

	"github.com/gapless-io/gapless/kube/scan"
)

// Part is what is needed of a JSON value. It is immutable.
type Part struct {
	whole   bool
	members map[string]*Part // of an object
	each    *Part            // of every member and item
}

// Whole is all of a value.
func Whole() *Part { return &Part{whole: true} }

// Parts returns the part of an object that has the values at some paths: "spec.nodeName", or
// with a star for every member or item, "status.conditions.*.type". Of a path that ends with
// a star the names of members are needed, or the number of items, and not the values.
func Parts(paths ...string) *Part {
	root := &Part{}
	for _, path := range paths {
		at := root
		steps := strings.Split(path, ".")
		for _, step := range steps {
			at = at.step(step)
		}
		at.whole = at.whole || steps[len(steps)-1] != "*"
	}
	return root
}

func (p *Part) step(name string) *Part {
	if name == "*" {
		if p.each == nil {
			p.each = &Part{}
		}
		return p.each
	}
	if p.members == nil {
		p.members = map[string]*Part{}
	}
	if p.members[name] == nil {
		p.members[name] = &Part{}
	}
	return p.members[name]
}

// Has reports whether something is needed of a member of an object.
func (p *Part) Has(member string) bool { return p.whole || p.each != nil || p.members[member] != nil }

// Without returns the part without member.inside, and without member if nothing else of that is needed. It returns the part
// itself if that is nil or all of a value, or if it needs all of member.
func (p *Part) Without(member, inside string) *Part {
	if p == nil || p.whole {
		return p
	}
	within := p.members[member]
	if within == nil || within.whole || within.members[inside] == nil {
		return p
	}
	rest := *within
	rest.members = maps.Clone(within.members)
	delete(rest.members, inside)
	all := *p
	all.members = maps.Clone(p.members)
	all.members[member] = &rest
	if len(rest.members) == 0 && rest.each == nil {
		delete(all.members, member)
	}
	return &all
}

// nothing says that only the kind of the value is needed.
func (p *Part) nothing() bool { return !p.whole && p.members == nil && p.each == nil }

// Extract returns a JSON object with only a part of its content, which for most decoders is
// the same as the object. A value that is not an object or an array where the part has
// values inside is left as it is. The object must be valid JSON, without escapes in the
// names of the members that are needed; another body is returned as it is.
func Extract(body []byte, part *Part) []byte { return ExtractInto(nil, body, part) }

// ExtractInto is Extract into memory that the caller has, of which the content is overwritten, and more if that is too
// little.
func ExtractInto(memory, body []byte, part *Part) []byte {
	if part.whole {
		return body
	}
	e := extraction{Scanner: scan.Scanner{Data: body, MaxDepth: maxDepth}, out: memory[:0]}
	if e.Peek() != '{' || e.value(part) != nil || e.Peek() != 0 || e.Pos < len(body) {
		return body
	}
	return e.out
}

// extraction is an Extract under way.
type extraction struct {
	scan.Scanner
	out []byte
}

func (e *extraction) value(part *Part) error {
	c := e.Peek()
	inside := c == '{' && (part.members != nil || part.each != nil) || c == '[' && part.each != nil
	if inside && !part.whole {
		return e.inside(part, c)
	}
	start := e.Pos
	if _, err := e.Skip(); err != nil {
		return err
	}
	switch {
	case !part.nothing():
		e.out = append(e.out, e.Data[start:e.Pos]...)
	case c == '{':
		e.out = append(e.out, "{}"...)
	case c == '[':
		e.out = append(e.out, "[]"...)
	case c == '"':
		e.out = append(e.out, `""`...)
	default:
		e.out = append(e.out, e.Data[start:e.Pos]...)
	}
	return nil
}

// inside extracts the members of an object, or the items of an array.
func (e *extraction) inside(part *Part, opening byte) error {
	closing := opening + 2 // ASCII: '[' and ']', '{' and '}'
	e.out = append(e.out, opening)
	comma := false
	more, err := e.Enter(closing)
	for more && err == nil {
		need := part.each
		var key scan.Token
		if opening == '{' {
			if key, err = e.Key(); err != nil {
				return err
			}
			if named := part.members[string(e.Data[key.Start:key.End])]; named != nil {
				need = named
			}
		}
		if need == nil {
			_, err = e.Skip()
		} else {
			if comma {
				e.out = append(e.out, ',')
			}
			comma = true
			if opening == '{' {
				e.out = append(append(e.out, e.Data[key.Start-1:key.End+1]...), ':')
			}
			err = e.value(need)
		}
		if err == nil {
			more, err = e.Next(closing)
		}
	}
	e.out = append(e.out, closing)
	return err
}
