package builtin

import (
	"encoding/base64"
	"maps"
)

// Defaults as of pkg/apis/{core,storage,networking,discovery}/v1/defaults.go and
// the create strategies of Kubernetes 1.37.

func defaultNamespace(o tree) {
	metadata := made(o, "metadata")
	if name := text(metadata, "name"); name != "" {
		set(made(metadata, "labels"), "kubernetes.io/metadata.name", name)
	}
	set(made(o, "status"), "phase", "Active")
	// A namespace that is going loses its finalizer for good.
	if metadata["deletionTimestamp"] == nil {
		set(made(o, "spec"), "finalizers", []any{"kubernetes"})
	}
}

func defaultNode(o tree) {
	status := child(o, "status")
	if capacity := child(status, "capacity"); capacity != nil {
		set(status, "allocatable", maps.Clone(capacity))
	}
}

// defaultSecret moves stringData, which is write-only, into data.
func defaultSecret(o tree) {
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

// defaultService does not allocate: clusterIP, node ports and IP families stay as
// they were given, since there is no network to take them from.
func defaultService(o tree) {
	spec := made(o, "spec")
	set(spec, "sessionAffinity", "None")
	set(spec, "type", "ClusterIP")
	if spec["sessionAffinity"] == "ClientIP" {
		set(made(made(spec, "sessionAffinityConfig"), "clientIP"), "timeoutSeconds", int64(10800))
	}
	for port := range items(spec, "ports") {
		set(port, "protocol", "TCP")
		if target := port["targetPort"]; target == nil || target == int64(0) || target == "" {
			port["targetPort"] = port["port"]
		}
	}
	if ip := text(spec, "clusterIP"); ip != "" {
		set(spec, "clusterIPs", []any{ip})
	}
	switch spec["type"] {
	case "ClusterIP":
		set(spec, "internalTrafficPolicy", "Cluster")
	case "NodePort", "LoadBalancer":
		set(spec, "internalTrafficPolicy", "Cluster")
		set(spec, "externalTrafficPolicy", "Cluster")
	}
	if spec["type"] == "LoadBalancer" {
		set(spec, "allocateLoadBalancerNodePorts", true)
	}
}

func defaultEndpoints(o tree) {
	for subset := range items(o, "subsets") {
		for port := range items(subset, "ports") {
			set(port, "protocol", "TCP")
		}
	}
}

// defaultLimitRange derives what a container gets from what it may have.
func defaultLimitRange(o tree) {
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

func defaultVolume(o tree) {
	spec := made(o, "spec")
	set(spec, "persistentVolumeReclaimPolicy", "Retain")
	set(spec, "volumeMode", "Filesystem")
	if host := child(spec, "hostPath"); host != nil && host["type"] == nil {
		host["type"] = ""
	}
	set(child(spec, "iscsi"), "iscsiInterface", "default")
	set(made(o, "status"), "phase", "Pending")
}

func defaultClaim(o tree) {
	spec := made(o, "spec")
	set(spec, "volumeMode", "Filesystem")
	// dataSource is the old form of dataSourceRef, for what is in the same namespace.
	ref := child(spec, "dataSourceRef")
	switch source := child(spec, "dataSource"); {
	case source != nil && ref == nil:
		spec["dataSourceRef"] = maps.Clone(source)
	case source == nil && ref != nil && ref["namespace"] == nil:
		spec["dataSource"] = maps.Clone(ref)
	}
	set(made(o, "status"), "phase", "Pending")
}

func defaultStorageClass(o tree) {
	set(o, "reclaimPolicy", "Delete")
	set(o, "volumeBindingMode", "Immediate")
}

func defaultEndpointSlice(o tree) {
	for port := range items(o, "ports") {
		if port["name"] == nil {
			port["name"] = ""
		}
		set(port, "protocol", "TCP")
	}
}

func defaultIngressClass(o tree) {
	set(child(child(o, "spec"), "parameters"), "scope", "Cluster")
}

func defaultNetworkPolicy(o tree) {
	spec := made(o, "spec")
	types := []any{"Ingress"}
	if list, _ := spec["egress"].([]any); len(list) > 0 {
		types = append(types, "Egress")
	}
	set(spec, "policyTypes", types)
	for _, direction := range []string{"ingress", "egress"} {
		for rule := range items(spec, direction) {
			for port := range items(rule, "ports") {
				set(port, "protocol", "TCP")
			}
		}
	}
}
