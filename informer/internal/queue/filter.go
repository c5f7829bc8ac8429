package queue

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/gapless-io/gapless/informer/internal/handle"
)

// Filter selects what is delivered. Its functions are called by the workers, several
// at once, and must depend only on their arguments.
type Filter[T handle.Object] struct {
	// Where selects objects; nil: all. An object that begins to match is Added, one that
	// no longer matches is Deleted.
	Where func(T) bool
	// Differs selects modifications; nil: all.
	Differs func(older, newer T) bool
}

// NewFilter combines functions of the types of Where and of Differs: all of where must
// hold, and one of differs is enough. It returns an error if one is of another type.
func NewFilter[T handle.Object](where, differs []any) (f Filter[T], err error) {
	var matches []func(T) bool
	var compares []func(T, T) bool
	for _, option := range where {
		match, is := option.(func(T) bool)
		if !is {
			return f, fmt.Errorf("option Where is a %T, the handler's objects are %s", option, reflect.TypeFor[T]())
		}
		matches = append(matches, match)
	}
	for _, option := range differs {
		compare, is := option.(func(T, T) bool)
		if !is {
			return f, fmt.Errorf("option Changed compares as %T, the handler's objects are %s", option, reflect.TypeFor[T]())
		}
		compares = append(compares, compare)
	}
	if len(matches) > 0 {
		f.Where = func(object T) bool {
			return !slices.ContainsFunc(matches, func(match func(T) bool) bool { return !match(object) })
		}
	}
	if len(compares) > 0 {
		f.Differs = func(older, newer T) bool {
			return slices.ContainsFunc(compares, func(differs func(T, T) bool) bool { return differs(older, newer) })
		}
	}
	return f, nil
}

// view returns what the handler gets of a task; deliver is false if that is nothing.
func (f *Filter[T]) view(t *task[T]) (d Delivery[T], deliver bool) {
	var none handle.Handle[T]
	d = t.delivery
	if f.Where == nil && f.Differs == nil || d.Kind == Resync && d.New == none {
		return d, true
	}
	matches := func(o handle.Handle[T]) bool { return o != none && (f.Where == nil || f.Where(o.Get())) }
	before := matches(t.seen)
	switch {
	case d.Kind != Deleted && matches(d.New):
		if !before {
			d.Kind, d.Old = Added, none
		}
		// A handler that did not finish the last call gets the state in any case.
		same := d.Kind == Modified && f.Differs != nil && !t.owes && !t.pending.must && !f.Differs(t.seen.Get(), d.New.Get())
		return d, !same
	case !before && !matches(t.shown):
		return d, false
	case d.Kind != Deleted: // it no longer matches
		d.Kind, d.Old, d.New, d.Initial = Deleted, t.seen, none, false
		if !before {
			d.Old = t.shown
		}
	}
	return d, true
}
