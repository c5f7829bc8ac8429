package podspec

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// RequestLimits makes a limit without a request a request.
func RequestLimits(resources tree.Object) {
	limits := tree.Child(resources, "limits")
	if len(limits) == 0 {
		return
	}
	requests := tree.Made(resources, "requests")
	for name, quantity := range limits {
		tree.Set(requests, name, quantity)
	}
}

// RoundUp makes amounts multiples of a thousandth, as upstream does with all that a spec has.
func RoundUp(amounts tree.Object) {
	for name := range amounts {
		text := tree.Text(amounts, name)
		if !strings.ContainsAny(text, ".unEe") { // it is one already
			continue
		}
		if q, err := resource.ParseQuantity(text); err == nil && !q.RoundUp(resource.Milli) {
			amounts[name] = q.String()
		}
	}
}

// RoundUpBoth rounds requests and limits up.
func RoundUpBoth(resources tree.Object) {
	RoundUp(tree.Child(resources, "limits"))
	RoundUp(tree.Child(resources, "requests"))
}

// ServiceQuality is the class by which a node evicts: Guaranteed when every
// container's limits of cpu and memory are set and equal its requests, BestEffort
// when no container has any, else Burstable.
func ServiceQuality(spec tree.Object) string {
	requested, guaranteed := false, true
	look := func(resources tree.Object) {
		limits, requests := tree.Child(resources, "limits"), tree.Child(resources, "requests")
		for _, name := range []string{"cpu", "memory"} {
			limit, request := amount(limits, name), amount(requests, name)
			if !limit.IsZero() || !request.IsZero() {
				requested = true
			}
			if limit.IsZero() || limit.Cmp(request) != 0 {
				guaranteed = false
			}
		}
	}
	if whole := tree.Child(spec, "resources"); hasShares(whole) {
		look(whole) // what the containers have does not count then
	} else {
		for _, list := range []string{"containers", "initContainers"} {
			for c := range tree.Items(spec, list) {
				look(tree.Child(c, "resources"))
			}
		}
	}
	switch {
	case !requested:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	default:
		return "Burstable"
	}
}

// hasShares reports whether resources of a whole pod say something that there can be for whole pods.
func hasShares(whole tree.Object) bool {
	for _, kind := range []string{"limits", "requests"} {
		for name := range tree.Child(whole, kind) {
			if name == "cpu" || name == "memory" || isHuge(name) {
				return true
			}
		}
	}
	return false
}

func amount(resources tree.Object, name string) resource.Quantity {
	q, err := resource.ParseQuantity(tree.Text(resources, name))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// CompleteResources completes the resources of a whole pod, if it has some: requests are those
// of its containers or else the limits, limits those of its containers if all have one.
func CompleteResources(spec tree.Object) {
	whole := tree.Child(spec, "resources")
	if len(tree.Child(whole, "limits"))+len(tree.Child(whole, "requests")) == 0 {
		return
	}
	limits, requests := total(spec, "limits"), total(spec, "requests")
	for name, sum := range limits {
		if isHuge(name) && tree.Child(whole, "requests")[name] == nil {
			tree.Set(tree.Made(whole, "limits"), name, sum.String())
		}
	}
	for name, sum := range requests {
		if name == "cpu" || name == "memory" {
			tree.Set(tree.Made(whole, "requests"), name, sum.String())
		}
	}
	for name, limit := range tree.Child(whole, "limits") {
		if name == "cpu" || name == "memory" || isHuge(name) {
			tree.Set(tree.Made(whole, "requests"), name, limit)
		}
	}
	for name := range tree.Child(whole, "requests") {
		sum, has := limits[name]
		if !has || tree.Child(whole, "limits")[name] != nil || !allLimited(spec, name) {
			continue
		}
		if asked := amount(tree.Child(whole, "requests"), name); asked.Cmp(sum) > 0 {
			sum = asked
		}
		tree.Made(whole, "limits")[name] = sum.String()
	}
}

func isHuge(name string) bool { return strings.HasPrefix(name, "hugepages-") }

// isSidecar reports whether an initial container keeps running beside the others.
func isSidecar(c tree.Object) bool { return tree.Text(c, "restartPolicy") == "Always" }

// allLimited reports whether each container of a pod has a limit.
func allLimited(spec tree.Object, name string) bool {
	for _, list := range []string{"containers", "initContainers"} {
		for c := range tree.Items(spec, list) {
			if tree.Child(c, "resources", "limits")[name] == nil {
				return false
			}
		}
	}
	return true
}

// total returns what the containers of a pod need at a time: the sum of those that run
// together, or what an initial container needs besides the sidecars before it.
func total(spec tree.Object, kind string) map[string]resource.Quantity {
	sums, most := map[string]resource.Quantity{}, map[string]resource.Quantity{}
	add := func(c tree.Object) {
		for name := range tree.Child(c, "resources", kind) {
			sum := sums[name]
			sum.Add(amount(tree.Child(c, "resources", kind), name))
			sums[name] = sum
		}
	}
	for c := range tree.Items(spec, "initContainers") {
		if isSidecar(c) {
			add(c)
			continue
		}
		for name := range tree.Child(c, "resources", kind) {
			need := sums[name].DeepCopy()
			need.Add(amount(tree.Child(c, "resources", kind), name))
			if old := most[name]; need.Cmp(old) > 0 {
				most[name] = need
			}
		}
	}
	for c := range tree.Items(spec, "containers") {
		add(c)
	}
	for name, need := range most {
		if sum := sums[name]; need.Cmp(sum) > 0 {
			sums[name] = need
		}
	}
	return sums
}
