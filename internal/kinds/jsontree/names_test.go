package jsontree_test

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// TestNamesAreFound: names of the same length that begin and end with the same letters, and the empty one, are told apart.
func TestNamesAreFound(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 64, 1000} {
		known := map[string]*string{}
		for i := range n {
			name := fmt.Sprintf("a%03d-%03[1]dz", i)
			if i == 2 {
				name = ""
			}
			known[name] = &name
		}
		names := jsontree.NamesOf(known)
		for name, want := range known {
			if got := names.Get(name); got != want {
				t.Errorf("of %d: %q is found as %v", n, name, got)
			}
		}
		for _, name := range []string{"a999-999y", "b", "a"} {
			if got := names.Get(name); got != nil {
				t.Errorf("of %d: %q, which is not there, is found as %q", n, name, *got)
			}
		}
		if n < 3 && names.Get("") != nil {
			t.Errorf("of %d: the empty name is found", n)
		}
	}
	if got := (&jsontree.Names[string]{}).Get("a"); got != nil {
		t.Errorf("in nothing %q is found", *got)
	}
}
