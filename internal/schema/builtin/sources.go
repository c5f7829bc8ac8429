package builtin

import "reflect"

// countSources counts the pointers that are set in a union of the API, such as
// the possible sources of a volume.
func countSources(union any) int {
	v := reflect.ValueOf(union)
	n := 0
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			n++
		}
	}
	return n
}
