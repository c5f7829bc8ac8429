package coordination

import "github.com/gapless-io/gapless/internal/kinds/tree"

// completeLease removes the gated fields of a lease: how a leader is elected.
func completeLease(u, _ tree.Object) error {
	if spec := tree.Child(u, "spec"); spec != nil {
		delete(spec, "preferredHolder")
		delete(spec, "strategy")
	}
	return nil
}
