package defaults

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// requestLimits makes a limit without a request a request.
func requestLimits(resources tree) {
	limits := child(resources, "limits")
	if len(limits) == 0 {
		return
	}
	requests := made(resources, "requests")
	for name, quantity := range limits {
		set(requests, name, quantity)
	}
}

// serviceQuality is the class by which a node evicts: Guaranteed when every
// container's limits of cpu and memory are set and equal its requests, BestEffort
// when no container has any, else Burstable.
func serviceQuality(spec tree) string {
	requested, guaranteed := false, true
	look := func(resources tree) {
		limits, requests := child(resources, "limits"), child(resources, "requests")
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
	if whole := child(spec, "resources"); whole != nil {
		look(whole) // what the containers have does not count then
	} else {
		for _, list := range []string{"containers", "initContainers"} {
			for c := range items(spec, list) {
				look(child(c, "resources"))
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

func amount(resources tree, name string) resource.Quantity {
	q, err := resource.ParseQuantity(text(resources, name))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// podResources completes the resources of a whole pod, if it has some: requests are those
// of its containers or else the limits, limits those of its containers if all have one.
func podResources(spec tree) {
	whole := child(spec, "resources")
	if len(child(whole, "limits"))+len(child(whole, "requests")) == 0 {
		return
	}
	limits, requests := total(spec, "limits"), total(spec, "requests")
	for name, sum := range limits {
		if isHuge(name) && child(whole, "requests")[name] == nil {
			set(made(whole, "limits"), name, sum.String())
		}
	}
	for name, sum := range requests {
		if name == "cpu" || name == "memory" {
			set(made(whole, "requests"), name, sum.String())
		}
	}
	for name, limit := range child(whole, "limits") {
		if name == "cpu" || name == "memory" || isHuge(name) {
			set(made(whole, "requests"), name, limit)
		}
	}
	for name := range child(whole, "requests") {
		sum, has := limits[name]
		if !has || child(whole, "limits")[name] != nil || !allLimited(spec, name) {
			continue
		}
		if asked := amount(child(whole, "requests"), name); asked.Cmp(sum) > 0 {
			sum = asked
		}
		made(whole, "limits")[name] = sum.String()
	}
}

func isHuge(name string) bool { return strings.HasPrefix(name, "hugepages-") }

// isSidecar reports whether an initial container keeps running beside the others.
func isSidecar(c tree) bool { return text(c, "restartPolicy") == "Always" }

// allLimited reports whether each container of a pod has a limit.
func allLimited(spec tree, name string) bool {
	for _, list := range []string{"containers", "initContainers"} {
		for c := range items(spec, list) {
			if child(child(c, "resources"), "limits")[name] == nil {
				return false
			}
		}
	}
	return true
}

// total returns what the containers of a pod need at a time: the sum of those that run
// together, or what an initial container needs besides the sidecars before it.
func total(spec tree, kind string) map[string]resource.Quantity {
	sums, most := map[string]resource.Quantity{}, map[string]resource.Quantity{}
	add := func(c tree) {
		for name := range child(child(c, "resources"), kind) {
			sum := sums[name]
			sum.Add(amount(child(child(c, "resources"), kind), name))
			sums[name] = sum
		}
	}
	for c := range items(spec, "initContainers") {
		if isSidecar(c) {
			add(c)
			continue
		}
		for name := range child(child(c, "resources"), kind) {
			need := sums[name].DeepCopy()
			need.Add(amount(child(child(c, "resources"), kind), name))
			if old := most[name]; need.Cmp(old) > 0 {
				most[name] = need
			}
		}
	}
	for c := range items(spec, "containers") {
		add(c)
	}
	for name, need := range most {
		if sum := sums[name]; need.Cmp(sum) > 0 {
			sums[name] = need
		}
	}
	return sums
}
