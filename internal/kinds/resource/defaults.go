package defaults

import (
	"maps"
	"time"
)

// Defaults as of pkg/apis/resource/v1/defaults.go of Kubernetes 1.37, and what its
// strategies drop: fields behind feature gates that are off by default.

// DeviceClaim fills in the defaults of a claim of devices.
func DeviceClaim(o tree) {
	requests(child(o, "spec"))
	for result := range items(child(child(child(o, "status"), "allocation"), "devices"), "results") {
		tolerations(result)
	}
}

// DeviceTemplate fills in the defaults of the claims of a template.
func DeviceTemplate(o tree) { requests(child(child(o, "spec"), "spec")) }

func requests(spec tree) {
	for request := range items(child(spec, "devices"), "requests") {
		count(child(request, "exactly"))
		for alternative := range items(request, "firstAvailable") {
			count(alternative)
		}
	}
}

func count(request tree) {
	tolerations(request)
	set(request, "allocationMode", "ExactCount")
	if request != nil && request["allocationMode"] == "ExactCount" && (request["count"] == nil || request["count"] == int64(0)) {
		request["count"] = int64(1)
	}
}

func tolerations(of tree) {
	for toleration := range items(of, "tolerations") {
		set(toleration, "operator", "Equal")
	}
}

// DeviceSlice notes since when devices have their taints.
func DeviceSlice(o tree) {
	for device := range items(child(o, "spec"), "devices") {
		for taint := range items(device, "taints") {
			setPointer(taint, timeAdded, time.Now().UTC().Format(time.RFC3339))
		}
	}
}

// PodRequest fills in the defaults of a request for a certificate of a pod.
func PodRequest(o tree) { setPointer(made(o, "spec"), "maxExpirationSeconds", int64(86400)) }

const timeAdded = "timeAdded"

// TaintRule notes since when there is a taint.
func TaintRule(o tree) {
	setPointer(made(made(o, "spec"), "taint"), timeAdded, time.Now().UTC().Format(time.RFC3339))
}

// TaintEffect notes when a taint has got another effect.
func TaintEffect(u, old tree) error {
	now, was := child(child(u, "spec"), "taint"), child(child(old, "spec"), "taint")
	if old != nil && now["effect"] != was["effect"] && now[timeAdded] == was[timeAdded] {
		now[timeAdded] = time.Now().UTC().Format(time.RFC3339)
	}
	return nil
}

// ClaimFields drops the gated fields of a claim, and the status of devices that it has no
// more.
func ClaimFields(u, old tree) error {
	derived(child(u, "spec"))
	status := child(u, "status")
	allocation := child(child(status, "allocation"), "devices")
	for result := range items(allocation, "results") {
		delete(result, "skipNodeOperations")
	}
	gone := map[[4]string]bool{}
	for result := range items(child(child(child(old, "status"), "allocation"), "devices"), "results") {
		gone[deviceID(result)] = true
	}
	for result := range items(allocation, "results") {
		delete(gone, deviceID(result))
	}
	list, _ := status["devices"].([]any)
	kept := make([]any, 0, len(list))
	for _, item := range list {
		if device, is := item.(tree); !is || !gone[deviceID(device)] {
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
func deviceID(o tree) [4]string {
	return [4]string{text(o, "driver"), text(o, "pool"), text(o, "device"), text(o, "shareID")}
}

// TemplateFields drops the gated fields of the claims of a template.
func TemplateFields(u, _ tree) error {
	derived(child(child(u, "spec"), "spec"))
	return nil
}

// derived drops the attributes that requests compute.
func derived(spec tree) {
	for request := range items(child(spec, "devices"), "requests") {
		delete(child(request, "exactly"), "derivedAttributes")
		for alternative := range items(request, "firstAvailable") {
			delete(alternative, "derivedAttributes")
		}
	}
}

// SliceFields drops the gated fields of a slice of devices.
func SliceFields(u, _ tree) error {
	spec := child(u, "spec")
	delete(spec, "partitionTypeAttribute")
	delete(spec, "skipNodeOperations")
	for device := range items(spec, "devices") {
		delete(device, "nodeAllocatableResources")
		for consumed := range items(device, "consumesCounters") {
			delete(consumed, "compatibilityGroups")
		}
		for attribute := range maps.Values(child(device, "attributes")) {
			value, _ := attribute.(tree)
			for _, list := range []string{"bools", "ints", "strings", "versions"} {
				delete(value, list)
			}
		}
	}
	return nil
}

// StorageHealth drops the gated status of the drivers of a node.
func StorageHealth(u, _ tree) error {
	delete(child(u, "status"), "storageHealth")
	return nil
}
