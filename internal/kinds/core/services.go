package core

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// completeService completes a service. An update keeps what was given to the service and what the
// update leaves out: upstream allocates these values, here they come from clients and controllers
// (pkg/registry/core/service/storage beginCreate and beginUpdate). What the new type of a service
// does not have is removed.
func completeService(u, old tree.Object) error {
	spec := tree.Made(u, "spec")
	if policy := spec["internalTrafficPolicy"]; spec["type"] == "ExternalName" && (policy == "Cluster" || policy == "Local") {
		delete(spec, "internalTrafficPolicy") // upstream stores it, and hides it
	}
	if old == nil {
		if ip := tree.Text(spec, "clusterIP"); ip != "" && len(list(spec, "clusterIPs")) == 0 {
			spec["clusterIPs"] = []any{ip}
		}
		return nil
	}
	was := tree.Child(old, "spec")
	if spec["type"] != "ExternalName" && was["type"] != "ExternalName" {
		tree.Set(spec, "clusterIP", was["clusterIP"])
		keepList(spec, was, "clusterIPs")
	}
	if takesNodePorts(spec) && takesNodePorts(was) {
		keepNodePorts(spec, was)
	}
	if healthPort(spec) && healthPort(was) {
		setNumber(spec, "healthCheckNodePort", was["healthCheckNodePort"])
	}
	matchClusterIPs(spec, was)
	if spec["type"] != "ExternalName" {
		keepFamilies(spec, was)
	}
	return dropOfType(u, old)
}

// takesNodePorts reports whether node ports are allocated for a service.
func takesNodePorts(spec tree.Object) bool {
	return spec["type"] == "NodePort" || spec["type"] == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false
}

// keepNodePorts gives ports without a node port the one that the port of their name had, unless
// another port has it now (patchAllocatedValues).
func keepNodePorts(now, was tree.Object) {
	before, held, used := tree.Object{}, map[any]bool{}, map[any]bool{}
	for port := range tree.Items(was, "ports") {
		before[tree.Text(port, "name")] = port["nodePort"]
		held[port["nodePort"]] = true
	}
	for port := range tree.Items(now, "ports") {
		used[port["nodePort"]] = held[port["nodePort"]]
	}
	for port := range tree.Items(now, "ports") {
		if n := before[tree.Text(port, "name")]; !used[n] {
			setNumber(port, "nodePort", n)
		}
	}
}

// matchClusterIPs makes clusterIPs follow a change of clusterIP, for clients that know only that
// (normalizeClusterIPs).
func matchClusterIPs(now, was tree.Object) {
	ip, before := tree.Text(now, "clusterIP"), tree.Text(was, "clusterIP")
	if ip == before {
		keepList(now, was, "clusterIPs")
		return
	}
	if !slices.Equal(list(now, "clusterIPs"), list(was, "clusterIPs")) {
		return // validation compares them
	}
	if ip == "" {
		delete(now, "clusterIPs")
		return
	}
	now["clusterIPs"] = []any{ip}
}

// keepFamilies keeps the IP families of a service, and releases the second one when the update
// asks for a single one (initIPFamilyFields). Upstream derives families that are left out from
// the cluster IPs, and for headless services from the cluster's.
func keepFamilies(now, was tree.Object) {
	if policy := was["ipFamilyPolicy"]; policy != nil {
		tree.SetPointer(now, "ipFamilyPolicy", policy)
	}
	keepList(now, was, "ipFamilies")
	if now["ipFamilyPolicy"] != "SingleStack" {
		return
	}
	for _, name := range []string{"clusterIPs", "ipFamilies"} {
		if all := list(now, name); len(all) > 1 && slices.Equal(all, list(was, name)) {
			now[name] = all[:1:1]
		}
	}
}

// keepList gives now the list that was has, if it has none.
func keepList(now, was tree.Object, name string) {
	if all := list(was, name); len(all) > 0 && len(list(now, name)) == 0 {
		now[name] = runtime.DeepCopyJSONValue(all)
	}
}

// list returns the list at key; nil when there is none.
func list(o tree.Object, key string) []any {
	all, _ := o[key].([]any)
	return all
}

// setNumber is set for a number, of which 0 counts as none.
func setNumber(o tree.Object, key string, value any) {
	if value != nil && (o[key] == nil || o[key] == int64(0)) {
		o[key] = value
	}
}
