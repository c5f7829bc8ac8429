package jsontree_test

import (
	"fmt"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// TestNamesAreFound: also those that are the same where the search looks, and the empty one.
func TestNamesAreFound(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 64, 1000} {
		known := map[string]*string{}
		for i := range n {
			name := fmt.Sprintf("a%03dm%03[1]dz", i)
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
		for _, name := range []string{"a000m001z", "a999m999y", "b", "a"} {
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
