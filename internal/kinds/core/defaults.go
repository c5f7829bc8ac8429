package defaults

import (
	"encoding/base64"
	"maps"
)

// Defaults as of pkg/apis/{core,storage,networking,discovery}/v1/defaults.go and
// the create strategies of Kubernetes 1.37.

// Namespace fills in the defaults of a namespace.
func Namespace(o tree) {
	metadata := made(o, "metadata")
	if name := text(metadata, "name"); name != "" {
		made(metadata, "labels")["kubernetes.io/metadata.name"] = name
	}
	set(made(o, "status"), "phase", "Active")
	// A namespace under deletion does not get its finalizer back.
	if metadata["deletionTimestamp"] == nil {
		set(made(o, "spec"), "finalizers", []any{"kubernetes"})
	}
}

// Node fills in the defaults of a node. podCIDR is the old form of podCIDRs, for one of
// them; where the two differ, it counts.
func Node(o tree) {
	spec := child(o, "spec")
	list, _ := spec["podCIDRs"].([]any)
	switch first := text(spec, "podCIDR"); {
	case first != "" && (len(list) == 0 || list[0] != first):
		spec["podCIDRs"] = []any{first}
	case first == "" && len(list) > 0:
		set(spec, "podCIDR", list[0])
	}
	status := child(o, "status")
	if capacity := child(status, "capacity"); capacity != nil {
		set(status, "allocatable", maps.Clone(capacity))
	}
}

// Secret moves stringData, which is write-only, into data.
func Secret(o tree) {
	set(o, "type", "Opaque")
	plain := child(o, "stringData")
	delete(o, "stringData")
	if len(plain) == 0 {
		return
	}
	data := made(o, "data")
	for key := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(text(plain, key)))
	}
}

// Service does not allocate: clusterIP, node ports and IP families stay as
// they were given, since there is no network to take them from.
func Service(o tree) {
	spec := made(o, "spec")
	set(spec, "sessionAffinity", "None")
	set(spec, "type", "ClusterIP")
	switch spec["sessionAffinity"] {
	case "None":
		delete(spec, "sessionAffinityConfig")
	case "ClientIP":
		setPointer(made(made(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", int64(10800))
	}
	for port := range items(spec, "ports") {
		set(port, "protocol", "TCP")
		if target := port["targetPort"]; target == nil || target == int64(0) || target == "" {
			port["targetPort"] = port["port"]
		}
	}
	switch spec["type"] {
	case "LoadBalancer":
		setPointer(spec, "allocateLoadBalancerNodePorts", true)
		for ingress := range items(child(child(o, "status"), "loadBalancer"), "ingress") {
			if text(ingress, "ip") != "" {
				setPointer(ingress, "ipMode", "VIP")
			}
		}
	case "ClusterIP", "NodePort":
	default:
		return
	}
	setPointer(spec, "internalTrafficPolicy", "Cluster")
	external, _ := spec["externalIPs"].([]any)
	if spec["type"] != "ClusterIP" || len(external) > 0 {
		set(spec, "externalTrafficPolicy", "Cluster")
	}
}

// Endpoints fills in the defaults of endpoints.
func Endpoints(o tree) {
	for subset := range items(o, "subsets") {
		for port := range items(subset, "ports") {
			set(port, "protocol", "TCP")
		}
	}
}

// LimitRange derives the defaults of a container from its limits.
func LimitRange(o tree) {
	for limit := range items(child(o, "spec"), "limits") {
		if limit["type"] != "Container" {
			continue
		}
		for _, from := range []struct{ key, source string }{{"default", "max"}, {"defaultRequest", "default"}, {"defaultRequest", "min"}} {
			source := child(limit, from.source)
			if len(source) == 0 {
				continue
			}
			target := made(limit, from.key)
			for name, quantity := range source {
				set(target, name, quantity)
			}
		}
	}
}

// Volume fills in the defaults of a persistent volume.
func Volume(o tree) {
	spec := made(o, "spec")
	set(spec, "persistentVolumeReclaimPolicy", "Retain")
	setPointer(spec, "volumeMode", "Filesystem")
	storageSource(spec)
	set(made(o, "status"), "phase", "Pending")
}

// Claim fills in the defaults of a persistent volume claim.
func Claim(o tree) {
	spec := made(o, "spec")
	setPointer(spec, "volumeMode", "Filesystem")
	set(made(o, "status"), "phase", "Pending")
}

// dataSources copies the source of a claim's volume between its two forms.
func dataSources(spec tree) {
	ref := child(spec, "dataSourceRef")
	switch source := child(spec, "dataSource"); {
	case source != nil && ref == nil:
		spec["dataSourceRef"] = maps.Clone(source)
	case source == nil && ref != nil && text(ref, "namespace") == "":
		spec["dataSource"] = maps.Clone(ref)
		delete(child(spec, "dataSource"), "namespace")
	}
}

// StorageClass fills in the defaults of a storage class.
func StorageClass(o tree) {
	setPointer(o, "reclaimPolicy", "Delete")
	setPointer(o, "volumeBindingMode", "Immediate")
}

// EndpointSlice fills in the defaults of an endpoint slice.
func EndpointSlice(o tree) {
	for port := range items(o, "ports") {
		setPointer(port, "name", "")
		setPointer(port, "protocol", "TCP")
	}
}

// IngressClass fills in the defaults of an ingress class.
func IngressClass(o tree) {
	setPointer(child(child(o, "spec"), "parameters"), "scope", "Cluster")
}

// NetworkPolicy fills in the defaults of a network policy.
func NetworkPolicy(o tree) {
	spec := made(o, "spec")
	types := []any{"Ingress"}
	if list, _ := spec["egress"].([]any); len(list) > 0 {
		types = append(types, "Egress")
	}
	set(spec, "policyTypes", types)
	for _, direction := range []string{"ingress", "egress"} {
		for rule := range items(spec, direction) {
			for port := range items(rule, "ports") {
				setPointer(port, "protocol", "TCP")
			}
		}
	}
}

// Driver fills in the defaults of a CSI driver.
func Driver(o tree) {
	spec := made(o, "spec")
	set(spec, "attachRequired", true)
	for _, name := range []string{"podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount", "preventPodSchedulingIfMissing"} {
		set(spec, name, false)
	}
	setPointer(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType")
	if list, _ := spec["volumeLifecycleModes"].([]any); len(list) == 0 {
		spec["volumeLifecycleModes"] = []any{"Persistent"}
	}
}

// Attachment fills in the defaults of a volume that is attached without an object of its
// own.
func Attachment(o tree) {
	storageSource(child(child(child(o, "spec"), "source"), "inlineVolumeSpec"))
}
