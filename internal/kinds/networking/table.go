package printers

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shownAddresses is how many addresses, hosts and ports a cell lists.
const shownAddresses = 3

func network(resource string) (Printer, bool) {
	switch resource {
	case "ingresses.networking.k8s.io":
		return of(ingressCells, name(),
			str("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			str("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			str("Address", "Address is a list containing ingress points for the load-balancer"),
			str("Ports", "Ports of TLS configurations that open"),
			age()), true
	case "ingressclasses.networking.k8s.io":
		return of(ingressClassCells, name(),
			str("Controller", "Controller that is responsible for handling this class"),
			str("Parameters", "A reference to a resource with additional parameters"),
			age()), true
	case "networkpolicies.networking.k8s.io":
		return of(func(o *networkingv1.NetworkPolicy, r row) []any {
			return []any{r.name, metav1.FormatLabelSelector(&o.Spec.PodSelector), r.age}
		}, name(), str("Pod-Selector", doc(networkingv1.NetworkPolicySpec{}, "podSelector")), age()), true
	case "endpointslices.discovery.k8s.io":
		return of(sliceCells, name(),
			str("AddressType", doc(discoveryv1.EndpointSlice{}, "addressType")),
			str("Ports", doc(discoveryv1.EndpointSlice{}, "ports")),
			str("Endpoints", doc(discoveryv1.EndpointSlice{}, "endpoints")),
			age()), true
	case "servicecidrs.networking.k8s.io":
		return of(func(o *networkingv1.ServiceCIDR, r row) []any {
			return []any{r.name, strings.Join(o.Spec.CIDRs, ","), r.age}
		},
			name(), str("CIDRs", doc(networkingv1.ServiceCIDRSpec{}, "cidrs")), age()), true
	case "ipaddresses.networking.k8s.io":
		return of(addressCells, name(), str("ParentRef", doc(networkingv1.IPAddressSpec{}, "parentRef"))), true
	case "leases.coordination.k8s.io":
		return of(func(o *coordinationv1.Lease, r row) []any {
			return []any{r.name, deref(o.Spec.HolderIdentity), r.age}
		}, name(), str("Holder", doc(coordinationv1.LeaseSpec{}, "holderIdentity")), age()), true
	}
	return Printer{}, false
}

func services() Printer {
	spec := corev1.ServiceSpec{}
	return of(serviceCells, append(
		[]column{
			name(), str("Type", doc(spec, "type")), str("Cluster-IP", doc(spec, "clusterIP")),
			str("External-IP", doc(spec, "externalIPs")), str("Port(s)", doc(spec, "ports")), age(),
		},
		wide(str("Selector", doc(spec, "selector")))...)...)
}

func serviceCells(o *corev1.Service, r row) []any {
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
		r.name, string(o.Spec.Type), clusterIP, externalIP(o), orNone(strings.Join(ports, ",")), r.age,
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
			points = append(points, or(ingress.IP, ingress.Hostname))
		}
		ips, none = append(distinct(points), ips...), "<pending>"
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
	default:
		return "<unknown>"
	}
	if len(ips) == 0 {
		return none
	}
	return strings.Join(ips, ",")
}

// distinct returns the words that are not empty, each once and in order. It changes words.
func distinct(words []string) []string {
	words = slices.DeleteFunc(words, func(s string) bool { return s == "" })
	slices.Sort(words)
	return slices.Compact(words)
}

func endpointsCells(o *corev1.Endpoints, r row) []any { //nolint:staticcheck // deprecated, and served
	if len(o.Subsets) == 0 {
		return []any{r.name, "<none>", r.age}
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
	return []any{r.name, joinFirst(list, shownAddresses, ","), r.age}
}

func ingressCells(o *networkingv1.Ingress, r row) []any {
	var points []string
	for _, ingress := range o.Status.LoadBalancer.Ingress {
		points = append(points, or(ingress.IP, ingress.Hostname))
	}
	ports := "80"
	if len(o.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{r.name, text(o.Spec.IngressClassName, "<none>"), ingressHosts(o.Spec.Rules), strings.Join(distinct(points), ","), ports, r.age}
}

// ingressHosts returns the first hosts, and how many rules there are besides, with a host
// or without.
func ingressHosts(rules []networkingv1.IngressRule) string {
	var hosts []string
	for _, rule := range rules {
		if len(hosts) == shownAddresses {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-shownAddresses)
		}
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	return or(strings.Join(hosts, ","), "*")
}

func ingressClassCells(o *networkingv1.IngressClass, r row) []any {
	shown := r.name
	if o.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		shown += " (default)"
	}
	parameters := "<none>"
	if p := o.Spec.Parameters; p != nil {
		kind := p.Kind
		if p.APIGroup != nil {
			kind += "." + *p.APIGroup
		}
		parameters = kind + "/" + p.Name
	}
	return []any{shown, o.Spec.Controller, parameters, r.age}
}

func sliceCells(o *discoveryv1.EndpointSlice, r row) []any {
	var ports, endpoints []string
	for _, p := range o.Ports {
		port := text(p.Name, "*")
		if p.Port != nil {
			port = strconv.Itoa(int(*p.Port))
		}
		ports = append(ports, port)
	}
	for _, e := range o.Endpoints {
		endpoints = append(endpoints, e.Addresses...)
	}
	return []any{
		r.name, string(o.AddressType), or(joinFirst(ports, shownAddresses, ","), "<unset>"),
		or(joinFirst(endpoints, shownAddresses, ","), "<unset>"), r.age,
	}
}

// addressCells has a cell more than there are columns, the age, as upstream.
func addressCells(o *networkingv1.IPAddress, r row) []any {
	parent := "<none>"
	if ref := o.Spec.ParentRef; ref != nil {
		of := schema.GroupResource{Group: ref.Group, Resource: ref.Resource}
		parent = strings.ToLower(of.String())
		if ref.Namespace != "" {
			parent += "/" + ref.Namespace
		}
		parent += "/" + ref.Name
	}
	return []any{r.name, parent, r.age}
}
