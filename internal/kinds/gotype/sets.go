package gotype

import "unicode/utf8"

// canonicalSet reports whether an object that begins at a place in JSON has nothing but objects, and is as
// wire.Canonical writes it: without white space, and with its names in order. That is how sets of fields are stored. It
// returns where the object ends. Names that are not ASCII, or have other escapes than those of quotes and backslashes,
// are not looked at: ok is false then.
func canonicalSet(b []byte, at, depth int) (end int, ok bool) {
	if depth > deepest || at+1 >= len(b) || b[at] != '{' {
		return at, false
	}
	if b[at+1] == '}' {
		return at + 2, true
	}
	var last []byte
	for first := true; ; first = false {
		begin := at + 2
		end, plain := nameEnd(b, at+1)
		if !plain || end+1 >= len(b) || b[end+1] != ':' {
			return at, false
		}
		name := b[begin:end]
		if !first && !lessName(last, name) {
			return at, false
		}
		last = name
		if at, ok = canonicalSet(b, end+2, depth+1); !ok || at >= len(b) {
			return at, false
		}
		switch b[at] {
		case ',':
		case '}':
			return at + 1, true
		default:
			return at, false
		}
	}
}

// nameEnd returns where the quote is that ends a name whose first quote is at a place.
func nameEnd(b []byte, at int) (end int, plain bool) {
	if at >= len(b) || b[at] != '"' {
		return at, false
	}
	for i := at + 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i, true
		case c == '\\':
			if i++; i == len(b) || b[i] != '"' && b[i] != '\\' {
				return i, false
			}
		case c < ' ' || c >= utf8.RuneSelf:
			return i, false
		}
	}
	return len(b), false
}

// lessName compares names in JSON by the bytes that they stand for.
func lessName(x, y []byte) bool {
	i, j := 0, 0
	for i < len(x) && j < len(y) {
		if x[i] == '\\' {
			i++
		}
		if y[j] == '\\' {
			j++
		}
		if x[i] != y[j] {
			return x[i] < y[j]
		}
		i, j = i+1, j+1
	}
	return i == len(x) && j < len(y)
}
