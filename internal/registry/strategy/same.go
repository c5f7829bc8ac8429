package strategy

import (
	"bytes"

	"github.com/gapless-io/gapless/internal/wire"
)

// same reports whether two values of trees are the same as JSON. The same number may have
// two types. Errors: those of wire.Canonical.
func same(a, b any) (bool, error) {
	switch a := a.(type) {
	case map[string]any:
		if b, is := b.(map[string]any); is && (a == nil) == (b == nil) {
			return sameMembers(a, b)
		}
	case []any:
		if b, is := b.([]any); is && (a == nil) == (b == nil) {
			return sameItems(a, b)
		}
	case string:
		if b, is := b.(string); is {
			return a == b, nil
		}
	case bool:
		if b, is := b.(bool); is {
			return a == b, nil
		}
	case int64:
		if b, is := b.(int64); is {
			return a == b, nil
		}
	}
	first, err := wire.Canonical(map[string]any{"value": a})
	if err != nil {
		return false, err
	}
	second, err := wire.Canonical(map[string]any{"value": b})
	return bytes.Equal(first, second), err
}

func sameMembers(a, b map[string]any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for name, value := range a {
		other, has := b[name]
		if !has {
			return false, nil
		}
		if is, err := same(value, other); !is {
			return false, err
		}
	}
	return true, nil
}

func sameItems(a, b []any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i, value := range a {
		if is, err := same(value, b[i]); !is {
			return false, err
		}
	}
	return true, nil
}
