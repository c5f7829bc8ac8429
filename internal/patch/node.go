package patch

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gapless-io/gapless/kube/scan"
)

// A node is a value of JSON: a map[string]any, a *list, a scalar as its JSON text,
// or nil for null. Numbers keep their text. Every value is parsed once, however deep it
// is nested: evanphx/json-patch, which upstream uses, parses nested values again on every
// level of a path.

// list is behind a pointer, so that it can grow where it is.
type list struct{ items []any }

// scalar is a string, a number, true or false as JSON.
type scalar string

// parse reads one value. Of duplicate names the last one wins.
func parse(text []byte) (any, error) {
	p := parser{Scanner: scan.Scanner{Data: text, MaxDepth: plainDepth}, text: string(text)}
	if node, err := p.value(); err == nil {
		return node, nil
	}
	// It has names with escapes, is nested deeply, or is no JSON.
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	return parseNext(d)
}

// plainDepth is how deeply a parser reads; API objects are below 30.
const plainDepth = 1000

// parser reads values whose names are ASCII without escapes. It allocates less than
// parseNext, which reads all.
type parser struct {
	scan.Scanner
	text string // the same text: scalars share its memory
}

var errName = errors.New("not a plain name")

func (p *parser) value() (any, error) {
	switch p.Peek() {
	case '{':
		o := map[string]any{}
		more, err := p.Enter('}')
		for more && err == nil {
			if err = p.member(o); err == nil {
				more, err = p.Next('}')
			}
		}
		return o, err
	case '[':
		l := &list{}
		more, err := p.Enter(']')
		for more && err == nil {
			var item any
			if item, err = p.value(); err == nil {
				l.items = append(l.items, item)
				more, err = p.Next(']')
			}
		}
		return l, err
	}
	t, err := p.Scalar()
	switch {
	case err != nil || t.Kind == scan.KindNull:
		return nil, err
	case t.Kind == scan.KindString:
		return scalar(p.text[t.Start-1 : t.End+1]), nil
	}
	return scalar(p.text[t.Start:t.End]), nil
}

func (p *parser) member(o map[string]any) error {
	name, err := p.Key()
	if err != nil {
		return err
	}
	if !name.Plain {
		return errName
	}
	value, err := p.value()
	o[p.text[name.Start:name.End]] = value
	return err
}

func parseNext(d *jsontext.Decoder) (any, error) {
	switch d.PeekKind() { //nolint:exhaustive // all but the two that begin a container are values
	case '{':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		o := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if o[key], err = parseNext(d); err != nil {
				return nil, err
			}
		}
		_, err := d.ReadToken()
		return o, err
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
		l := &list{}
		for d.PeekKind() != ']' {
			item, err := parseNext(d)
			if err != nil {
				return nil, err
			}
			l.items = append(l.items, item)
		}
		_, err := d.ReadToken()
		return l, err
	}
	value, err := d.ReadValue()
	if err != nil || value.Kind() == 'n' {
		return nil, err
	}
	return scalar(value), nil
}

// write appends a node as JSON.
func write(to []byte, node any) []byte {
	switch n := node.(type) {
	case map[string]any:
		to = append(to, '{')
		for i, name := range slices.Sorted(maps.Keys(n)) {
			if i > 0 {
				to = append(to, ',')
			}
			to, _ = jsontext.AppendQuote(to, name) // it replaces invalid UTF-8
			to = write(append(to, ':'), n[name])
		}
		return append(to, '}')
	case *list:
		to = append(to, '[')
		for i, item := range n.items {
			if i > 0 {
				to = append(to, ',')
			}
			to = write(to, item)
		}
		return append(to, ']')
	case scalar:
		return append(to, n...)
	}
	return append(to, "null"...)
}

// equal compares scalars by their text, as upstream does: 1 is not 1.0.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		return is && maps.EqualFunc(a, b, equal)
	case *list:
		b, is := b.(*list)
		return is && slices.EqualFunc(a.items, b.items, equal)
	}
	return a == b
}

// merge applies a merge patch (RFC 7386) like evanphx/json-patch: it removes nulls from a
// replacement, unless a list replaces an object.
func merge(to, patch any) any {
	object, is := to.(map[string]any)
	if !is {
		return pruned(patch)
	}
	change, is := patch.(map[string]any)
	if !is {
		return patch
	}
	for name, value := range change {
		switch was := object[name]; {
		case value == nil:
			delete(object, name)
		case was == nil:
			object[name] = pruned(value)
		default:
			object[name] = merge(was, value)
		}
	}
	return object
}

// pruned removes the members that are null, in place.
func pruned(node any) any {
	switch n := node.(type) {
	case map[string]any:
		for name, value := range n {
			if value == nil {
				delete(n, name)
			} else {
				pruned(value)
			}
		}
	case *list:
		for _, item := range n.items {
			pruned(item)
		}
	}
	return node
}
