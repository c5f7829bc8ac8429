package check

import (
	"reflect"
	"strings"
)

// Sources counts the pointers that are set in a union of the API, such as the possible
// sources of a volume.
func Sources(union any) int {
	n, v := 0, reflect.ValueOf(union)
	for i := range v.NumField() { //nolint:modernize // Fields would describe each on the heap
		if f := v.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			n++
		}
	}
	return n
}

// SourceNames returns the JSON names of the pointers that are set in a union.
func SourceNames(union any) []string {
	var names []string
	for t, f := range reflect.ValueOf(union).Fields() {
		if f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(t.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
