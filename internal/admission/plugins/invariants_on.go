//go:build invariants

package plugins

import (
	"context"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"github.com/gapless-io/gapless/internal/admission"
)

// checkForm panics where plugins have not said that what they have changed must be brought into the form of its kind,
// but must. It looks at a copy: what the server does next is what it does without invariants.
func checkForm(ctx context.Context, w *Write) error {
	form := admission.FormOf(ctx)
	if w.Object == nil || form == nil {
		return nil
	}
	formed := w.Object.DeepCopy()
	if err := form(formed); err != nil {
		return err
	}
	if diff := cmp.Diff(w.Object.Object, formed.Object); diff != "" {
		panic(fmt.Sprintf("plugins: invariant broken: %s %s is not in the form of its kind: -is +should be\n%s",
			w.GetOperation(), w.GetResource().Resource, diff))
	}
	return nil
}
