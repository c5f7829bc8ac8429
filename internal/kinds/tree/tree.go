// Package tree reads and completes decoded JSON objects: what the defaults and the subresources
// of the built-in kinds are written in.
package tree

import (
	"iter"

	"k8s.io/apimachinery/pkg/runtime"
)

// Object is a decoded JSON object.
type Object = map[string]any

// Child returns the object below a path; nil when there is none. A nil object may be read
// and given to Set, which then does nothing.
func Child(o Object, path ...string) Object {
	for _, key := range path {
		o, _ = o[key].(Object)
	}
	return o
}

// Made returns the object below a path and makes it when it is missing; nil when o is.
func Made(o Object, path ...string) Object {
	for _, key := range path {
		if o == nil {
			return nil
		}
		if o[key] == nil {
			o[key] = Object{}
		}
		o, _ = o[key].(Object)
	}
	return o
}

// Items yields the objects of the list at key.
func Items(o Object, key string) iter.Seq[Object] {
	return func(yield func(Object) bool) {
		list, _ := o[key].([]any)
		for _, item := range list {
			if t, ok := item.(Object); ok && !yield(t) {
				return
			}
		}
	}
}

// Set puts value at key unless there is one already; "" counts as none. A nil
// value is not put.
func Set(o Object, key string, value any) {
	if o != nil && value != nil && (o[key] == nil || o[key] == "") {
		o[key] = value
	}
}

// SetPointer is Set for a field whose Go type is a pointer: there, "" is a value.
func SetPointer(o Object, key string, value any) {
	if o != nil && o[key] == nil {
		o[key] = value
	}
}

// Text returns the string at key; "" when there is none.
func Text(o Object, key string) string {
	s, _ := o[key].(string)
	return s
}

// Is reports whether the boolean at key is true.
func Is(o Object, key string) bool {
	b, _ := o[key].(bool)
	return b
}

// Take copies one member of another object into an object that the caller owns.
func Take(into, from Object, key string) {
	delete(into, key)
	if value, has := from[key]; has {
		into[key] = runtime.DeepCopyJSONValue(value)
	}
}
