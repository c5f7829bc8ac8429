package networking

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/networking/v1/defaults.go of Kubernetes 1.37.

// defaultIngressClass fills in the defaults of an ingress class.
func defaultIngressClass(o tree.Object) {
	tree.SetPointer(tree.Child(o, "spec", "parameters"), "scope", "Cluster")
}

// defaultNetworkPolicy fills in the defaults of a network policy.
func defaultNetworkPolicy(o tree.Object) {
	spec := tree.Made(o, "spec")
	types := []any{"Ingress"}
	if list, _ := spec["egress"].([]any); len(list) > 0 {
		types = append(types, "Egress")
	}
	tree.Set(spec, "policyTypes", types)
	for _, direction := range []string{"ingress", "egress"} {
		for rule := range tree.Items(spec, direction) {
			for port := range tree.Items(rule, "ports") {
				tree.SetPointer(port, "protocol", "TCP")
			}
		}
	}
}
