package scheduling

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/scheduling/v1/defaults.go of Kubernetes 1.37.

// defaultPriorityClass fills in the defaults of a priority class.
func defaultPriorityClass(o tree.Object) {
	tree.SetPointer(o, "preemptionPolicy", "PreemptLowerPriority")
}
