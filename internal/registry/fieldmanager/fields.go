package fieldmanager

import (
	"slices"
	"strings"
)

// fields is what is managed in one place of an object: the value itself, if it is own, and
// what is below it, ordered by name. It is what FieldsV1 says, without a map for each place.
type fields struct {
	own   bool
	below []field
}

// field is a member of an object, or an item of a list, with what is managed in it.
type field struct {
	name string // of the member; of the item, as FieldsV1 has it: with its k: or v:
	item bool
	fields
}

// put adds a field, if something is managed there.
func (f *fields) put(of field) {
	if of.own || len(of.below) > 0 {
		f.below = append(f.below, of)
	}
}

func (f *fields) sort() {
	slices.SortFunc(f.below, func(a, b field) int { return strings.Compare(a.name, b.name) })
}

// has reports whether an item is managed.
func (f *fields) has(item string) bool {
	return slices.ContainsFunc(f.below, func(of field) bool { return of.name == item })
}

// equal reports whether the fields are those of a set.
func (f *fields) equal(set fieldSet) bool {
	n := len(f.below)
	if _, own := set["."]; own || len(set) == 0 {
		if !f.own {
			return false
		}
	} else if f.own {
		return false
	}
	if _, mark := set["."]; mark {
		n++
	}
	if len(set) != n {
		return false
	}
	for i := range f.below {
		below, name := &f.below[i], f.below[i].name
		if !below.item {
			name = "f:" + name
		}
		if of, is := set[name].(map[string]any); !is || !below.equal(of) {
			return false
		}
	}
	return true
}

// fieldSet is what FieldsV1 is as decoded JSON: by the names of path elements.
type fieldSet = map[string]any

// put adds a field to a set: what is managed below it, and whether it is itself. It may change
// below.
func put(set fieldSet, name string, below fieldSet, own bool) {
	switch {
	case len(below) == 0 && !own:
		return
	case len(below) == 0:
		below = fieldSet{}
	case own:
		below["."] = fieldSet{}
	}
	set[name] = below
}
