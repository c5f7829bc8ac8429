package core

import (
	"encoding/base64"
	"maps"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Defaults as of pkg/apis/core/v1/defaults.go and
// the create strategies of Kubernetes 1.37.

// defaultNamespace fills in the defaults of a namespace.
func defaultNamespace(o tree.Object) {
	metadata := tree.Made(o, "metadata")
	if name := tree.Text(metadata, "name"); name != "" {
		tree.Made(metadata, "labels")["kubernetes.io/metadata.name"] = name
	}
	tree.Set(tree.Made(o, "status"), "phase", "Active")
}

// defaultNode fills in the defaults of a node. podCIDR is the old form of podCIDRs, for one of
// them; where the two differ, it counts.
func defaultNode(o tree.Object) {
	spec := tree.Child(o, "spec")
	list, _ := spec["podCIDRs"].([]any)
	switch first := tree.Text(spec, "podCIDR"); {
	case first != "" && (len(list) == 0 || list[0] != first):
		spec["podCIDRs"] = []any{first}
	case first == "" && len(list) > 0:
		tree.Set(spec, "podCIDR", list[0])
	}
	status := tree.Child(o, "status")
	if capacity := tree.Child(status, "capacity"); capacity != nil {
		tree.Set(status, "allocatable", maps.Clone(capacity))
	}
}

// defaultSecret moves stringData, which is write-only, into data.
func defaultSecret(o tree.Object) {
	tree.Set(o, "type", "Opaque")
	plain := tree.Child(o, "stringData")
	delete(o, "stringData")
	if len(plain) == 0 {
		return
	}
	data := tree.Made(o, "data")
	for key := range plain {
		data[key] = base64.StdEncoding.EncodeToString([]byte(tree.Text(plain, key)))
	}
}

// defaultService does not allocate: clusterIP, node ports and IP families stay as
// they were given, since there is no network to take them from.
func defaultService(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "sessionAffinity", "None")
	tree.Set(spec, "type", "ClusterIP")
	switch spec["sessionAffinity"] {
	case "None":
		delete(spec, "sessionAffinityConfig")
	case "ClientIP":
		tree.SetPointer(tree.Made(spec, "sessionAffinityConfig", "clientIP"), "timeoutSeconds", int64(10800))
	}
	for port := range tree.Items(spec, "ports") {
		tree.Set(port, "protocol", "TCP")
		if target := port["targetPort"]; target == nil || target == int64(0) || target == "" {
			port["targetPort"] = port["port"]
		}
	}
	switch spec["type"] {
	case "LoadBalancer":
		tree.SetPointer(spec, "allocateLoadBalancerNodePorts", true)
		for ingress := range tree.Items(tree.Child(o, "status", "loadBalancer"), "ingress") {
			if tree.Text(ingress, "ip") != "" {
				tree.SetPointer(ingress, "ipMode", "VIP")
			}
		}
	case "ClusterIP", "NodePort":
	default:
		return
	}
	tree.SetPointer(spec, "internalTrafficPolicy", "Cluster")
	external, _ := spec["externalIPs"].([]any)
	if spec["type"] != "ClusterIP" || len(external) > 0 {
		tree.Set(spec, "externalTrafficPolicy", "Cluster")
	}
}

// defaultEndpoints fills in the defaults of endpoints.
func defaultEndpoints(o tree.Object) {
	for subset := range tree.Items(o, "subsets") {
		for port := range tree.Items(subset, "ports") {
			tree.Set(port, "protocol", "TCP")
		}
	}
}

// defaultLimitRange derives the defaults of a container from its limits.
func defaultLimitRange(o tree.Object) {
	for limit := range tree.Items(tree.Child(o, "spec"), "limits") {
		if limit["type"] == "Container" {
			deriveLimits(limit)
		}
		for _, key := range []string{"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"} {
			podspec.RoundUp(tree.Child(limit, key))
		}
	}
}

func deriveLimits(limit tree.Object) {
	for _, from := range []struct{ key, source string }{
		{"default", "max"}, {"defaultRequest", "default"}, {"defaultRequest", "min"},
	} {
		source := tree.Child(limit, from.source)
		if len(source) == 0 {
			continue
		}
		target := tree.Made(limit, from.key)
		for name, quantity := range source {
			tree.Set(target, name, quantity)
		}
	}
}

// defaultQuota rounds the amounts of a quota.
func defaultQuota(o tree.Object) {
	podspec.RoundUp(tree.Child(o, "spec", "hard"))
	podspec.RoundUp(tree.Child(o, "status", "hard"))
	podspec.RoundUp(tree.Child(o, "status", "used"))
}

// defaultVolume fills in the defaults of a persistent volume.
func defaultVolume(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "persistentVolumeReclaimPolicy", "Retain")
	tree.SetPointer(spec, "volumeMode", "Filesystem")
	podspec.DefaultStorageSource(spec)
	podspec.RoundUp(tree.Child(spec, "capacity"))
	tree.Set(tree.Made(o, "status"), "phase", "Pending")
}
