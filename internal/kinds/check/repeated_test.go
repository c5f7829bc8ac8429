package check_test

import (
	"slices"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

func TestRepeatedValuesAreThoseThatStandBefore(t *testing.T) {
	if got, want := check.Repeated([]string{"a", "b", "a", "", "a", ""}), []bool{
		false, false, true, false, true, true,
	}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if set := check.Set([]int{1, 2, 1}); len(set) != 2 || !set[1] || !set[2] {
		t.Errorf("the set is %v", set)
	}
}
