//go:build invariants

package plugins

import (
	"fmt"

	"github.com/google/go-cmp/cmp"
)

// checkForm panics where plugins have not said that what they have changed must be brought into the form of its kind,
// but must.
func checkForm(w *Write, redo func() error) error {
	if w.Object == nil {
		return nil
	}
	before := w.Object.DeepCopy()
	if err := redo(); err != nil {
		return err
	}
	if diff := cmp.Diff(before.Object, w.Object.Object); diff != "" {
		panic(fmt.Sprintf("plugins: invariant broken: %s %s is not in the form of its kind: -is +should be\n%s",
			w.GetOperation(), w.GetResource().Resource, diff))
	}
	return nil
}
