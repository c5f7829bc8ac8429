package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func nodeTable() kinds.Table {
	addresses := table.Doc(corev1.NodeStatus{}, "addresses")
	t := table.Of(nodeCells, append(
		[]table.Column{
			table.Name(), table.Str("Status", "The status of the node"), table.Str("Roles", "The roles of the node"), table.Age(),
			table.Str("Version", table.Doc(corev1.NodeSystemInfo{}, "kubeletVersion")),
		},
		table.Wide(
			table.Str("Internal-IP", addresses),
			table.Str("External-IP", addresses),
			table.Str("OS-Image", table.Doc(corev1.NodeSystemInfo{}, "osImage")),
			table.Str("Kernel-Version", table.Doc(corev1.NodeSystemInfo{}, "kernelVersion")),
			table.Str("Container-Runtime", table.Doc(corev1.NodeSystemInfo{}, "containerRuntimeVersion")),
		)...)...)
	t.RowsSince = 36
	return t
}

func nodeCells(o *corev1.Node, r table.Meta) []any {
	info := o.Status.NodeInfo
	kernel := table.Or(info.KernelVersion, "<unknown>")
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		r.Name, nodeStatus(o), table.OrNone(strings.Join(nodeRoles(o), ",")), r.Age, info.KubeletVersion,
		nodeAddress(o, corev1.NodeInternalIP), nodeAddress(o, corev1.NodeExternalIP),
		table.Or(info.OSImage, "<unknown>"), kernel, table.Or(info.ContainerRuntimeVersion, "<unknown>"),
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
