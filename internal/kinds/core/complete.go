package defaults

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// The completions are parts of upstream's PrepareForCreate and PrepareForUpdate
// (pkg/registry/*/strategy.go of Kubernetes 1.37).

// TemplateGeneration counts the changes of a daemon set's template in an annotation, the
// only trace of the field that the beta versions had for it.
func TemplateGeneration(u, old tree) error {
	const name = "deprecated.daemonset.template.generation"
	if err := Template(u, old); err != nil {
		return err
	}
	given := int64(0)
	metadata := made(u, "metadata")
	if value, has := child(metadata, "annotations")[name].(string); has {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("read the annotation %s: %w", name, err)
		}
		given = n
	}
	if old != nil {
		was := text(child(child(old, "metadata"), "annotations"), name)
		given, _ = strconv.ParseInt(was, 10, 64) // none in objects from before 1.0: 0
		if !reflect.DeepEqual(child(child(u, "spec"), "template"), child(child(old, "spec"), "template")) {
			given++
		}
	}
	made(metadata, "annotations")[name] = strconv.FormatInt(max(given, 1), 10)
	return nil
}

// JobSelector gives a new job a selector that no other job can have. What the job says
// itself stays, and validation refuses it if it is something else.
func JobSelector(u, old tree) error {
	spec, metadata := child(u, "spec"), child(u, "metadata")
	if spec != nil {
		delete(spec, "scheduling") // behind a feature gate that is off
		gated(child(child(spec, "template"), "spec"))
	}
	if old != nil || spec == nil || is(spec, "manualSelector") {
		return nil
	}
	const prefix = "batch.kubernetes.io/"
	uid, name := text(metadata, "uid"), text(metadata, "name")
	labels := made(made(made(spec, "template"), "metadata"), "labels")
	setPointer(labels, prefix+"controller-uid", uid)
	setPointer(labels, "controller-uid", uid)
	setPointer(labels, prefix+"job-name", name)
	setPointer(labels, "job-name", name)
	setPointer(made(made(spec, "selector"), "matchLabels"), prefix+"controller-uid", uid)
	jobLabels(u)
	return nil
}

// DataSources drops a dataSource of a kind that never was one, and keeps dataSource, the
// old form of dataSourceRef for objects in the same namespace, equal to that.
func DataSources(u, old tree) error {
	spec := child(u, "spec")
	before := child(old, "spec")
	if child(before, "dataSource") == nil && spec["dataSourceRef"] == nil && !isOldSource(child(spec, "dataSource")) {
		delete(spec, "dataSource")
	}
	// Sources of other namespaces are behind a feature gate that is off.
	if text(child(spec, "dataSourceRef"), "namespace") != "" && text(child(before, "dataSourceRef"), "namespace") == "" {
		delete(spec, "dataSourceRef")
	}
	dataSources(spec)
	return nil
}

// isOldSource reports whether a claim could have the source before there was
// dataSourceRef.
func isOldSource(source tree) bool {
	switch group := text(source, "apiGroup"); text(source, "kind") {
	case "PersistentVolumeClaim":
		return group == ""
	case "VolumeSnapshot":
		return group == "snapshot.storage.k8s.io"
	}
	return false
}

// PhaseTransition notes when the phase of a volume has changed.
func PhaseTransition(u, old tree) error {
	const at = "lastPhaseTransitionTime"
	status, before := made(u, "status"), child(old, "status")
	switch same := old != nil && status["phase"] == before["phase"]; {
	case same:
		set(status, at, before[at])
	case status[at] == nil || status[at] == before[at]:
		status[at] = time.Now().UTC().Format(time.RFC3339)
	}
	return nil
}

// NamespaceFinalizer gives a new namespace the finalizer of its content, besides others.
func NamespaceFinalizer(u, old tree) error {
	spec := made(u, "spec")
	list, _ := spec["finalizers"].([]any)
	deleting := child(u, "metadata")["deletionTimestamp"] != nil
	if old == nil && !deleting && !slices.Contains(list, any("kubernetes")) {
		spec["finalizers"] = append(slices.Clone(list), "kubernetes")
	}
	return nil
}

// Topology removes the topology of endpoints, which only the beta versions had.
func Topology(u, old tree) error {
	if old != nil {
		return nil
	}
	for endpoint := range items(u, "endpoints") {
		delete(endpoint, "deprecatedTopology")
	}
	return nil
}

// PodStatus gives a new pod its first status, and keeps what old clients leave out of a pod.
func PodStatus(u, old tree) error {
	spec, status := made(u, "spec"), made(u, "status")
	gated(spec)
	if old != nil {
		if was := child(child(old, "spec"), "resources"); was != nil && spec["resources"] == nil {
			spec["resources"] = runtime.DeepCopyJSON(was)
		}
		keepObserved(status, child(old, "status"))
		return nil
	}
	podResources(spec)
	status["phase"], status["qosClass"] = "Pending", serviceQuality(spec)
	gates, _ := spec["schedulingGates"].([]any)
	if len(gates) == 0 {
		return nil
	}
	status["conditions"] = []any{tree{
		"type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
		"message":       "Scheduling is blocked due to non-empty scheduling gates",
		"lastProbeTime": nil, "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}
	return nil
}

// keepObserved keeps which generation of a pod a status is about, and the claims of its
// resources.
func keepObserved(status, before tree) {
	for _, name := range []string{
		"qosClass", "observedGeneration", "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses",
	} {
		set(status, name, before[name])
	}
	seen := map[string]bool{}
	for c := range items(status, "conditions") {
		kind := text(c, "type")
		for was := range items(before, "conditions") {
			if text(was, "type") == kind && !seen[kind] {
				set(c, "observedGeneration", was["observedGeneration"])
				seen[kind] = true
			}
		}
	}
}

// ServiceType removes from a service what its new type does not have, unless the update
// changes that too: then validation refuses it.
func ServiceType(u, old tree) error {
	if old == nil {
		return nil
	}
	now, was := child(u, "spec"), child(old, "spec")
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
	if status := child(u, "status"); !balances && len(child(status, "loadBalancer")) > 0 {
		status["loadBalancer"] = tree{}
	}
	return nil
}

func nodePorts(spec tree) bool { return spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" }

func healthPort(spec tree) bool {
	return spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local"
}

// external reports whether a service can be reached from outside the cluster.
func external(spec tree) bool {
	ips, _ := spec["externalIPs"].([]any)
	return spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" || spec["type"] == "ClusterIP" && len(ips) > 0
}

// dropNodePorts removes the node ports of a service if it had them all before.
func dropNodePorts(now, was tree) {
	before := map[any]bool{}
	for port := range items(was, "ports") {
		before[port["nodePort"]] = true
	}
	for port := range items(now, "ports") {
		if n := port["nodePort"]; n != nil && !before[n] {
			return
		}
	}
	for port := range items(now, "ports") {
		delete(port, "nodePort")
	}
}
