// Package setting compares the settings that options make.
//
// It has one noun: a setting, which is a value of any type.
package setting

import "reflect"

// Same reports whether two settings of one type are the same. Functions, maps and channels
// cannot be compared: they are the same only where both are nil.
func Same(a, b reflect.Value) bool {
	switch a.Kind() { //nolint:exhaustive // what is left is compared by ==, or not at all
	case reflect.Func, reflect.Map, reflect.Chan:
		return a.IsNil() && b.IsNil()
	case reflect.Struct:
		for i := range a.NumField() {
			if !Same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !Same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Comparable() && b.Comparable() && a.Equal(b)
}
