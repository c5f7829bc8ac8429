package core

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func serviceTable() kinds.Table {
	spec := corev1.ServiceSpec{}
	return table.Of(serviceCells, append(
		[]table.Column{
			table.Name(), table.Str("Type", table.Doc(spec, "type")), table.Str("Cluster-IP", table.Doc(spec, "clusterIP")),
			table.Str("External-IP", table.Doc(spec, "externalIPs")), table.Str("Port(s)", table.Doc(spec, "ports")), table.Age(),
		},
		table.Wide(table.Str("Selector", table.Doc(spec, "selector")))...)...)
}

func serviceCells(o *corev1.Service, r table.Meta) []any {
	clusterIP := "<none>"
	if len(o.Spec.ClusterIPs) > 0 {
		clusterIP = o.Spec.ClusterIPs[0]
	}
	ports := make([]string, len(o.Spec.Ports))
	for i, p := range o.Spec.Ports {
		ports[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort > 0 {
			ports[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return []any{
		r.Name, string(o.Spec.Type), clusterIP, externalIP(o), table.OrNone(strings.Join(ports, ",")), r.Age,
		labels.FormatLabels(o.Spec.Selector),
	}
}

func externalIP(o *corev1.Service) string {
	ips, none := o.Spec.ExternalIPs, "<none>"
	switch o.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return o.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var points []string
		for _, ingress := range o.Status.LoadBalancer.Ingress {
			points = append(points, table.Or(ingress.IP, ingress.Hostname))
		}
		ips, none = append(table.Distinct(points), ips...), "<pending>"
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
	default:
		return "<unknown>"
	}
	if len(ips) == 0 {
		return none
	}
	return strings.Join(ips, ",")
}

func endpointsCells(o *corev1.Endpoints, r table.Meta) []any { //nolint:staticcheck // deprecated, and served
	if len(o.Subsets) == 0 {
		return []any{r.Name, "<none>", r.Age}
	}
	var list []string
	for _, subset := range o.Subsets {
		if len(subset.Ports) == 0 { // of a headless service
			for _, address := range subset.Addresses {
				list = append(list, address.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, address := range subset.Addresses {
				list = append(list, net.JoinHostPort(address.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	return []any{r.Name, table.JoinFirst(list, table.ShownAddresses, ","), r.Age}
}

func endpointsTable() kinds.Table {
	about := table.Doc(corev1.Endpoints{}, "subsets") //nolint:staticcheck // deprecated, and served
	return table.Of(endpointsCells, table.Name(), table.Str("Endpoints", about), table.Age())
}
