package scheduling

import "github.com/gapless-io/gapless/internal/kinds/tree"

// defaultPriorityClass fills in the defaults of a priority class.
func defaultPriorityClass(o tree.Object) {
	tree.SetPointer(o, "preemptionPolicy", "PreemptLowerPriority")
}
