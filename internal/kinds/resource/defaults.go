package resource

import (
	"maps"
	"time"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Defaults as of pkg/apis/resource/v1/defaults.go of Kubernetes 1.37, and what its
// strategies drop: fields behind feature gates that are off by default.

// defaultClaim fills in the defaults of a claim of devices.
func defaultClaim(o tree.Object) {
	requests(tree.Child(o, "spec"))
	for result := range tree.Items(tree.Child(o, "status", "allocation", "devices"), "results") {
		tolerations(result)
	}
}

// defaultTemplate fills in the defaults of the claims of a template.
func defaultTemplate(o tree.Object) { requests(tree.Child(o, "spec", "spec")) }

func requests(spec tree.Object) {
	for request := range tree.Items(tree.Child(spec, "devices"), "requests") {
		count(tree.Child(request, "exactly"))
		for alternative := range tree.Items(request, "firstAvailable") {
			count(alternative)
		}
	}
}

func count(request tree.Object) {
	tolerations(request)
	tree.Set(request, "allocationMode", "ExactCount")
	if request != nil && request["allocationMode"] == "ExactCount" && (request["count"] == nil || request["count"] == int64(0)) {
		request["count"] = int64(1)
	}
}

func tolerations(of tree.Object) {
	for toleration := range tree.Items(of, "tolerations") {
		tree.Set(toleration, "operator", "Equal")
	}
}

// defaultSlice notes since when devices have their taints.
func defaultSlice(o tree.Object) {
	for device := range tree.Items(tree.Child(o, "spec"), "devices") {
		for taint := range tree.Items(device, "taints") {
			tree.SetPointer(taint, timeAdded, time.Now().UTC().Format(time.RFC3339))
		}
	}
}

const timeAdded = "timeAdded"

// defaultTaintRule notes since when there is a taint.
func defaultTaintRule(o tree.Object) {
	tree.SetPointer(tree.Made(o, "spec", "taint"), timeAdded, time.Now().UTC().Format(time.RFC3339))
}

// completeTaintRule notes when a taint has got another effect.
func completeTaintRule(u, old tree.Object) error {
	now, was := tree.Child(u, "spec", "taint"), tree.Child(old, "spec", "taint")
	if old != nil && now["effect"] != was["effect"] && now[timeAdded] == was[timeAdded] {
		now[timeAdded] = time.Now().UTC().Format(time.RFC3339)
	}
	return nil
}

// completeClaim drops the gated fields of a claim, and the status of devices that it has no
// more.
func completeClaim(u, old tree.Object) error {
	derived(tree.Child(u, "spec"))
	status := tree.Child(u, "status")
	allocation := tree.Child(status, "allocation", "devices")
	for result := range tree.Items(allocation, "results") {
		delete(result, "skipNodeOperations")
	}
	gone := map[[4]string]bool{}
	for result := range tree.Items(tree.Child(old, "status", "allocation", "devices"), "results") {
		gone[deviceID(result)] = true
	}
	for result := range tree.Items(allocation, "results") {
		delete(gone, deviceID(result))
	}
	list, _ := status["devices"].([]any)
	kept := make([]any, 0, len(list))
	for _, item := range list {
		if device, is := item.(tree.Object); !is || !gone[deviceID(device)] {
			kept = append(kept, item)
		}
	}
	switch {
	case len(kept) > 0:
		status["devices"] = kept
	case status != nil:
		delete(status, "devices")
	}
	return nil
}

// deviceID is what names a device, or a share of it.
func deviceID(o tree.Object) [4]string {
	return [4]string{tree.Text(o, "driver"), tree.Text(o, "pool"), tree.Text(o, "device"), tree.Text(o, "shareID")}
}

// completeTemplate drops the gated fields of the claims of a template.
func completeTemplate(u, _ tree.Object) error {
	derived(tree.Child(u, "spec", "spec"))
	return nil
}

// derived drops the attributes that requests compute.
func derived(spec tree.Object) {
	for request := range tree.Items(tree.Child(spec, "devices"), "requests") {
		delete(tree.Child(request, "exactly"), "derivedAttributes")
		for alternative := range tree.Items(request, "firstAvailable") {
			delete(alternative, "derivedAttributes")
		}
	}
}

// completeSlice drops the gated fields of a slice of devices.
func completeSlice(u, _ tree.Object) error {
	spec := tree.Child(u, "spec")
	delete(spec, "partitionTypeAttribute")
	delete(spec, "skipNodeOperations")
	for device := range tree.Items(spec, "devices") {
		delete(device, "nodeAllocatableResources")
		for consumed := range tree.Items(device, "consumesCounters") {
			delete(consumed, "compatibilityGroups")
		}
		for attribute := range maps.Values(tree.Child(device, "attributes")) {
			value, _ := attribute.(tree.Object)
			for _, list := range []string{"bools", "ints", "strings", "versions"} {
				delete(value, list)
			}
		}
	}
	return nil
}
