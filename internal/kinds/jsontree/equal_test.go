package jsontree_test

import (
	"reflect"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

func TestEqualComparesAsReflectionDoes(t *testing.T) {
	texts := []string{
		`{}`, `{"a":null}`, `{"a":1}`, `{"a":1.5}`, `{"a":"1"}`, `{"a":true}`, `{"a":[]}`, `{"a":{}}`, `{"b":1}`,
		`{"a":1,"b":2}`, `{"a":[1,2]}`, `{"a":[2,1]}`, `{"a":[1]}`, `{"a":[[1]]}`, `{"a":[{"x":1}]}`, `{"a":[{"x":2}]}`,
		`{"a":[null]}`,
	}
	for _, first := range texts {
		for _, second := range texts {
			a, err := jsontree.Decode([]byte(first))
			if err != nil {
				t.Fatal(err)
			}
			b, err := jsontree.Decode([]byte(second))
			if err != nil {
				t.Fatal(err)
			}
			if got := jsontree.Equal(a, b); got != reflect.DeepEqual(a, b) {
				t.Errorf("%s and %s: %t", first, second, got)
			}
		}
	}
}
