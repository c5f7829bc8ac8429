package flowcontrol

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/flowcontrol/v1/defaults.go of Kubernetes 1.37.

// defaultFlowSchema fills in the defaults of a FlowSchema.
func defaultFlowSchema(o tree.Object) {
	setZero(tree.Made(o, "spec"), "matchingPrecedence", 1000)
}

// defaultPriorityLevel fills in the defaults of a PriorityLevelConfiguration.
func defaultPriorityLevel(o tree.Object) {
	exempt := tree.Child(o, "spec", "exempt")
	tree.SetPointer(exempt, "nominalConcurrencyShares", int64(0))
	tree.SetPointer(exempt, "lendablePercent", int64(0))
	limited := tree.Child(o, "spec", "limited")
	tree.SetPointer(limited, "nominalConcurrencyShares", int64(30))
	tree.SetPointer(limited, "lendablePercent", int64(0))
	queuing := tree.Child(limited, "limitResponse", "queuing")
	setZero(queuing, "handSize", 8)
	setZero(queuing, "queues", 64)
	setZero(queuing, "queueLengthLimit", 50)
}

// setZero is tree.Set for a number that means nothing if it is 0.
func setZero(o tree.Object, key string, n int64) {
	if o[key] == int64(0) {
		delete(o, key)
	}
	tree.Set(o, key, n)
}
