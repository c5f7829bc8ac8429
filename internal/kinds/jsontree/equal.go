package jsontree

import "slices"

// Equal reports whether two values of decoded JSON are the same. Whole numbers and others
// (int64, float64) are different values, as in Decode. It recurses as deep as they are nested.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, has := b[name]; !has || !Equal(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, Equal)
	default:
		switch b.(type) {
		case map[string]any, []any:
			return false
		}
		return a == b
	}
}
