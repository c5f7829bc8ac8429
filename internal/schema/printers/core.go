package printers

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resources "github.com/gapless-io/gapless/internal/schema"
)

func core(resource string) (Printer, bool) {
	switch resource {
	case "pods":
		return of("Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*", podCells), true
	case "namespaces":
		return of("Name|Status|Age", func(o *corev1.Namespace, r row) []any {
			return []any{r.name, string(o.Status.Phase), r.age}
		}), true
	case "configmaps":
		return of("Name|Data|Age", func(o *corev1.ConfigMap, r row) []any {
			return []any{r.name, int64(len(o.Data) + len(o.BinaryData)), r.age}
		}), true
	case "secrets":
		return of("Name|Type|Data|Age", func(o *corev1.Secret, r row) []any {
			return []any{r.name, string(o.Type), int64(len(o.Data)), r.age}
		}), true
	case "serviceaccounts":
		return of("Name|Secrets|Age", func(o *corev1.ServiceAccount, r row) []any {
			return []any{r.name, int64(len(o.Secrets)), r.age}
		}), true
	case "services":
		return of("Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*", serviceCells), true
	case "endpoints":
		return of("Name|Endpoints|Age", func(o *corev1.Endpoints, r row) []any { //nolint:staticcheck // deprecated, and served
			return []any{r.name, endpointAddresses(o), r.age}
		}), true
	case "nodes":
		return of("Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*", nodeCells), true
	case "events":
		return of("Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*", eventCells), true
	case "limitranges":
		return of("Name|Created At", func(_ *metav1.PartialObjectMetadata, r row) []any { return []any{r.name, stamp(r.created)} }), true
	case "resourcequotas":
		return of("Name|Request|Limit|Age", quotaCells), true
	}
	return Printer{}, false
}

func serviceCells(o *corev1.Service, r row) []any {
	ports := make([]string, len(o.Spec.Ports))
	for i, p := range o.Spec.Ports {
		ports[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			ports[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return []any{
		r.name, string(o.Spec.Type), orNone(o.Spec.ClusterIP), externalIP(o), orNone(strings.Join(ports, ",")), r.age,
		selectorText(o.Spec.Selector),
	}
}

func externalIP(o *corev1.Service) string {
	switch o.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return o.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		ips := slices.Clone(o.Spec.ExternalIPs)
		for _, ingress := range o.Status.LoadBalancer.Ingress {
			ips = append(ips, or(ingress.IP, ingress.Hostname))
		}
		return or(strings.Join(ips, ","), "<pending>")
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(strings.Join(o.Spec.ExternalIPs, ","))
	}
	return "<none>"
}

// selectorText prints a map selector as kubectl does, "<none>" when empty.
func selectorText(selector map[string]string) string {
	return orNone(metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: selector}))
}

func endpointAddresses(o *corev1.Endpoints) string { //nolint:staticcheck // as above
	var list []string
	for _, subset := range o.Subsets {
		for _, address := range subset.Addresses {
			if len(subset.Ports) == 0 {
				list = append(list, address.IP)
			}
			for _, port := range subset.Ports {
				list = append(list, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	return joinFirst(list, 3)
}

func nodeCells(o *corev1.Node, r row) []any {
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
	var roles []string
	for label, value := range o.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if label == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	address := map[corev1.NodeAddressType]string{}
	for _, a := range o.Status.Addresses {
		address[a.Type] = cmp.Or(address[a.Type], a.Address)
	}
	info := o.Status.NodeInfo
	return []any{
		r.name, status, orNone(strings.Join(roles, ",")), r.age, info.KubeletVersion,
		orNone(address[corev1.NodeInternalIP]), orNone(address[corev1.NodeExternalIP]),
		or(info.OSImage, "<unknown>"), or(info.KernelVersion, "<unknown>"), or(info.ContainerRuntimeVersion, "<unknown>"),
	}
}

func eventCells(o *corev1.Event, r row) []any {
	last, first := o.LastTimestamp.Time, o.FirstTimestamp.Time
	if first.IsZero() {
		first = o.EventTime.Time
	}
	if last.IsZero() {
		last = first
	}
	count := max(o.Count, 1)
	if o.Series != nil {
		last, count = o.Series.LastObservedTime.Time, o.Series.Count
	}
	ref := o.InvolvedObject
	source := or(o.Source.Component, o.ReportingController)
	if host := or(o.Source.Host, o.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		resources.Age(last, r.now), o.Type, o.Reason, strings.ToLower(ref.Kind) + "/" + ref.Name, ref.FieldPath,
		source, strings.TrimSpace(o.Message), resources.Age(first, r.now), int64(count), r.name,
	}
}

func quotaCells(o *corev1.ResourceQuota, r row) []any {
	var requests, limits []string
	for name, hard := range o.Spec.Hard {
		used := o.Status.Used[name]
		line := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits") {
			limits = append(limits, line)
		} else {
			requests = append(requests, line)
		}
	}
	slices.Sort(requests)
	slices.Sort(limits)
	return []any{r.name, strings.Join(requests, ", "), strings.Join(limits, ", "), r.age}
}
