package printers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func nodes() Printer {
	addresses := doc(corev1.NodeStatus{}, "addresses")
	return of(nodeCells, append(
		[]column{
			name(), str("Status", "The status of the node"), str("Roles", "The roles of the node"), age(),
			str("Version", doc(corev1.NodeSystemInfo{}, "kubeletVersion")),
		},
		wide(
			str("Internal-IP", addresses),
			str("External-IP", addresses),
			str("OS-Image", doc(corev1.NodeSystemInfo{}, "osImage")),
			str("Kernel-Version", doc(corev1.NodeSystemInfo{}, "kernelVersion")),
			str("Container-Runtime", doc(corev1.NodeSystemInfo{}, "containerRuntimeVersion")),
		)...)...)
}

func nodeCells(o *corev1.Node, r row) []any {
	info := o.Status.NodeInfo
	kernel := or(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		r.name, nodeStatus(o), orNone(strings.Join(nodeRoles(o), ",")), r.age, info.KubeletVersion,
		nodeAddress(o, corev1.NodeInternalIP), nodeAddress(o, corev1.NodeExternalIP),
		or(info.OSImage, "<unknown>"), kernel, or(info.ContainerRuntimeVersion, "<unknown>"),
	}
}

func nodeStatus(o *corev1.Node) string {
	status := "Unknown"
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.NodeReady {
			status = "NotReady"
			if c.Status == corev1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	if o.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// nodeRoles returns the roles that the labels of a node name, each once and in order.
func nodeRoles(o *corev1.Node) []string {
	var roles []string
	for label, value := range o.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

// nodeAddress returns the first address of a type.
func nodeAddress(o *corev1.Node, t corev1.NodeAddressType) string {
	i := slices.IndexFunc(o.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == t })
	if i < 0 {
		return "<none>"
	}
	return o.Status.Addresses[i].Address
}
