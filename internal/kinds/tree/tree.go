// Package defaults fills in the defaults of the built-in kinds.
//
// It has two nouns. A tree is a decoded object; the functions change it in place. A
// completion ([PodStatus]) fills in what depends on the stored object, after the defaults.
package defaults

import "iter"

// tree is a decoded JSON object.
type tree = map[string]any

// child returns the object at key; nil when there is none. A nil tree may be read
// and given to set, which then does nothing.
func child(o tree, key string) tree {
	c, _ := o[key].(tree)
	return c
}

// made returns the object at key and makes it when it is missing; nil when o is.
func made(o tree, key string) tree {
	if o == nil {
		return nil
	}
	if o[key] == nil {
		o[key] = tree{}
	}
	return child(o, key)
}

// items yields the objects of the list at key.
func items(o tree, key string) iter.Seq[tree] {
	return func(yield func(tree) bool) {
		list, _ := o[key].([]any)
		for _, item := range list {
			if t, ok := item.(tree); ok && !yield(t) {
				return
			}
		}
	}
}

// set puts value at key unless there is one already; "" counts as none. A nil
// value is not put.
func set(o tree, key string, value any) {
	if o != nil && value != nil && (o[key] == nil || o[key] == "") {
		o[key] = value
	}
}

// setPointer is set for a field whose Go type is a pointer: there, "" is a value.
func setPointer(o tree, key string, value any) {
	if o != nil && o[key] == nil {
		o[key] = value
	}
}

// text returns the string at key; "" when there is none.
func text(o tree, key string) string {
	s, _ := o[key].(string)
	return s
}

// is reports whether the boolean at key is true.
func is(o tree, key string) bool {
	b, _ := o[key].(bool)
	return b
}
