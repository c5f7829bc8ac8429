//go:build invariants

package plugins

import (
	"context"
	"fmt"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

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

// original is what a shared value was at first.
func original(value map[string]any) map[string]any { return runtime.DeepCopyJSON(value) }

// check panics if somebody has changed what all have.
func (s Shared) check() {
	if diff := cmp.Diff(s.made, s.value); diff != "" {
		panic("plugins: invariant broken: what many objects have was changed: -was +is\n" + diff)
	}
}
