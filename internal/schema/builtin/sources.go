package builtin

import "reflect"

// countSources counts the pointers that are set in a union of the API, such as
// the possible sources of a volume.
func countSources(union any) int {
	n := 0
	for _, f := range reflect.ValueOf(union).Fields() {
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			n++
		}
	}
	return n
}
