package strategy

import (
	"bytes"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestSameNumbersOfTwoTypesAreTheSame(t *testing.T) {
	for _, test := range []struct {
		a, b any
		same bool
	}{
		{int64(1), float64(1), true},
		{int64(1), 1, true},
		{1.5, int64(1), false},
		{[]any(nil), []any{}, false},
		{map[string]any(nil), map[string]any{}, false},
		{map[string]any{"a": nil}, map[string]any{"b": nil}, false},
		{[]string{"a"}, []any{"a"}, true},
		{"1", int64(1), false},
		{nil, nil, true},
	} {
		if got, err := same(test.a, test.b); got != test.same || err != nil {
			t.Errorf("%#v and %#v: %t, %v", test.a, test.b, got, err)
		}
	}
	if got, err := same(func() {}, 1); err == nil {
		t.Errorf("a function is compared: %t", got)
	}
}

func FuzzSame(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"c"}]}`), []byte(`{"a":[1.0,{"b":"c"}]}`))
	f.Add([]byte(`{"a":null}`), []byte(`{"b":true}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a, err := jsontree.Decode(first)
		if err != nil {
			return
		}
		b, err := jsontree.Decode(second)
		if err != nil {
			return
		}
		is, err := same(a, b)
		if err != nil {
			t.Fatalf("compare: %v", err)
		}
		one, err := wire.Canonical(map[string]any{"value": a})
		if err != nil {
			t.Fatalf("encode the object: %v", err)
		}
		other, err := wire.Canonical(map[string]any{"value": b})
		if err != nil {
			t.Fatalf("encode the object: %v", err)
		}
		if is != bytes.Equal(one, other) {
			t.Errorf("%s and %s are the same: %t", one, other, is)
		}
	})
}
