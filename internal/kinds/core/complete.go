package core

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// The completions are parts of upstream's PrepareForCreate and PrepareForUpdate
// (pkg/registry/*/strategy.go of Kubernetes 1.37).

// completeClaim drops a dataSource of a kind that never was one, and keeps dataSource, the
// old form of dataSourceRef for objects in the same namespace, equal to that.
func completeClaim(u, old tree.Object) error {
	spec := tree.Child(u, "spec")
	before := tree.Child(old, "spec")
	if tree.Child(before, "dataSource") == nil && spec["dataSourceRef"] == nil && !isOldSource(tree.Child(spec, "dataSource")) {
		delete(spec, "dataSource")
	}
	// Sources of other namespaces are behind a feature gate that is off.
	if tree.Text(tree.Child(spec, "dataSourceRef"), "namespace") != "" &&
		tree.Text(tree.Child(before, "dataSourceRef"), "namespace") == "" {
		delete(spec, "dataSourceRef")
	}
	dataSources(spec)
	return nil
}

// isOldSource reports whether a claim could have the source before there was
// dataSourceRef.
func isOldSource(source tree.Object) bool {
	switch group := tree.Text(source, "apiGroup"); tree.Text(source, "kind") {
	case "PersistentVolumeClaim":
		return group == ""
	case "VolumeSnapshot":
		return group == "snapshot.storage.k8s.io"
	}
	return false
}

// completeVolume notes when the phase of a volume has changed.
func completeVolume(u, old tree.Object) error {
	const at = "lastPhaseTransitionTime"
	status, before := tree.Made(u, "status"), tree.Child(old, "status")
	switch same := old != nil && status["phase"] == before["phase"]; {
	case same:
		tree.Set(status, at, before[at])
	case status[at] == nil || status[at] == before[at]:
		status[at] = time.Now().UTC().Format(time.RFC3339)
	}
	return nil
}

// completeNamespace gives a new namespace the finalizer of its content, besides others.
func completeNamespace(u, old tree.Object) error {
	spec := tree.Made(u, "spec")
	list, _ := spec["finalizers"].([]any)
	deleting := tree.Child(u, "metadata")["deletionTimestamp"] != nil
	if old == nil && !deleting && !slices.Contains(list, any("kubernetes")) {
		spec["finalizers"] = append(slices.Clone(list), "kubernetes")
	}
	return nil
}

// completePod gives a new pod its first status, and keeps what old clients leave out of a pod.
func completePod(u, old tree.Object) error {
	spec, status := tree.Made(u, "spec"), tree.Made(u, "status")
	podspec.DropGated(spec)
	if old != nil {
		if was := tree.Child(old, "spec", "resources"); was != nil && spec["resources"] == nil {
			spec["resources"] = runtime.DeepCopyJSON(was)
		}
		keepObserved(status, tree.Child(old, "status"))
		dropEmptied(status)
		return nil
	}
	dropEmptied(status)
	podspec.CompleteResources(spec)
	status["phase"], status["qosClass"] = "Pending", podspec.ServiceQuality(spec)
	gates, _ := spec["schedulingGates"].([]any)
	if len(gates) == 0 {
		return nil
	}
	status["conditions"] = []any{tree.Object{
		"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
		"message":       "Scheduling is blocked due to non-empty scheduling gates",
		"lastProbeTime": nil, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}
	return nil
}

// emptiedOfPods are lists that an old client leaves out, and that one that knows them empties.
func emptiedOfPods() []string {
	return []string{"resourceClaimStatuses", "nodeAllocatableResourceClaimStatuses"}
}

func dropEmptied(status tree.Object) {
	for _, name := range emptiedOfPods() {
		if list, is := status[name].([]any); is && len(list) == 0 {
			delete(status, name)
		}
	}
}

// keepObserved keeps which generation of a pod a status is about, and the claims of its
// resources.
func keepObserved(status, before tree.Object) {
	for _, name := range []string{
		"qosClass", "observedGeneration", "resourceClaimStatuses", "extendedResourceClaimStatus",
		"nodeAllocatableResourceClaimStatuses",
	} {
		tree.Set(status, name, before[name])
	}
	seen := map[string]bool{}
	for c := range tree.Items(status, "conditions") {
		kind := tree.Text(c, "type")
		for was := range tree.Items(before, "conditions") {
			if tree.Text(was, "type") == kind && !seen[kind] {
				tree.Set(c, "observedGeneration", was["observedGeneration"])
				seen[kind] = true
			}
		}
	}
}

// dropOfType removes from a service what its new type does not have, unless the update
// changes that too: then validation refuses it.
func dropOfType(u, old tree.Object) error {
	if old == nil {
		return nil
	}
	now, was := tree.Child(u, "spec"), tree.Child(old, "spec")
	drop := func(name string, had, has bool) {
		if had && !has && reflect.DeepEqual(now[name], was[name]) {
			delete(now, name)
		}
	}
	hadIP, hasIP := was["type"] != "ExternalName", now["type"] != "ExternalName"
	for _, name := range []string{"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} {
		drop(name, hadIP, hasIP)
	}
	if nodePorts(was) && !nodePorts(now) {
		dropNodePorts(now, was)
	}
	drop("healthCheckNodePort", healthPort(was), healthPort(now))
	balanced, balances := was["type"] == "LoadBalancer", now["type"] == "LoadBalancer"
	drop("allocateLoadBalancerNodePorts", balanced, balances)
	drop("loadBalancerClass", balanced, balances)
	drop("externalTrafficPolicy", external(was), external(now))
	// A write of the status that changes it is checked instead.
	if status := tree.Child(u, "status"); !balances && len(tree.Child(status, "loadBalancer")) > 0 &&
		reflect.DeepEqual(u["status"], old["status"]) {
		status["loadBalancer"] = tree.Object{}
	}
	return nil
}

func nodePorts(spec tree.Object) bool {
	return spec["type"] == "NodePort" || spec["type"] == "LoadBalancer"
}

func healthPort(spec tree.Object) bool {
	return spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

// external reports whether a service can be reached from outside the cluster.
func external(spec tree.Object) bool {
	ips, _ := spec["externalIPs"].([]any)
	return spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" || spec["type"] == "ClusterIP" && len(ips) > 0
}

// dropNodePorts removes the node ports of a service if it had them all before.
func dropNodePorts(now, was tree.Object) {
	before := map[any]bool{}
	for port := range tree.Items(was, "ports") {
		before[port["nodePort"]] = true
	}
	for port := range tree.Items(now, "ports") {
		if n := port["nodePort"]; n != nil && !before[n] {
			return
		}
	}
	for port := range tree.Items(now, "ports") {
		delete(port, "nodePort")
	}
}

// dataSources copies the source of a claim's volume between its two forms.
func dataSources(spec tree.Object) {
	ref := tree.Child(spec, "dataSourceRef")
	switch source := tree.Child(spec, "dataSource"); {
	case source != nil && ref == nil:
		spec["dataSourceRef"] = maps.Clone(source)
	case source == nil && ref != nil && tree.Text(ref, "namespace") == "":
		spec["dataSource"] = maps.Clone(ref)
		delete(tree.Child(spec, "dataSource"), "namespace")
	}
}

// completePodTemplate removes gated fields from a pod template that is an object of its own.
func completePodTemplate(u, _ tree.Object) error {
	podspec.DropGated(tree.Child(u, "template", "spec"))
	return nil
}

// completeNode removes the gated fields of a node, and its dynamic configuration, which
// never was more than a beta.
func completeNode(u, old tree.Object) error {
	if spec := tree.Child(u, "spec"); spec != nil {
		delete(spec, "configSource")
		delete(spec, "podPreemptionPolicy")
	}
	if status := tree.Child(u, "status"); old == nil && status != nil {
		delete(status, "config")
	}
	return nil
}

// completeServiceAccount keeps of a service account's references to secrets their names only.
func completeServiceAccount(u, _ tree.Object) error {
	list, _ := u["secrets"].([]any)
	for i, item := range list {
		if ref, is := item.(tree.Object); is {
			name := tree.Object{}
			tree.Set(name, "name", ref["name"])
			list[i] = name
		}
	}
	return nil
}
