package printers

import (
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func network(resource string) (Printer, bool) {
	switch resource {
	case "ingresses.networking.k8s.io":
		return of("Name|Class|Hosts|Address|Ports|Age", ingressCells), true
	case "ingressclasses.networking.k8s.io":
		return of("Name|Controller|Parameters|Age", func(o *networkingv1.IngressClass, r row) []any {
			parameters := "<none>"
			if p := o.Spec.Parameters; p != nil {
				kind := p.Kind
				if p.APIGroup != nil {
					kind += "." + *p.APIGroup
				}
				parameters = kind + "/" + p.Name
			}
			return []any{r.name, o.Spec.Controller, parameters, r.age}
		}), true
	case "networkpolicies.networking.k8s.io":
		return of("Name|Pod-Selector|Age", func(o *networkingv1.NetworkPolicy, r row) []any {
			return []any{r.name, metav1.FormatLabelSelector(&o.Spec.PodSelector), r.age}
		}), true
	case "endpointslices.discovery.k8s.io":
		return of("Name|AddressType|Ports|Endpoints|Age", sliceCells), true
	case "leases.coordination.k8s.io":
		return of("Name|Holder|Age", func(o *coordinationv1.Lease, r row) []any {
			return []any{r.name, deref(o.Spec.HolderIdentity), r.age}
		}), true
	}
	return Printer{}, false
}

func ingressCells(o *networkingv1.Ingress, r row) []any {
	var hosts, addresses []string
	for _, rule := range o.Spec.Rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	for _, ingress := range o.Status.LoadBalancer.Ingress {
		addresses = append(addresses, or(ingress.IP, ingress.Hostname))
	}
	shown := "*"
	if len(hosts) > 0 {
		shown = joinFirst(hosts, 3)
	}
	ports := "80"
	if len(o.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{r.name, text(o.Spec.IngressClassName, "<none>"), shown, strings.Join(addresses, ","), ports, r.age}
}

func sliceCells(o *discoveryv1.EndpointSlice, r row) []any {
	var ports, endpoints []string
	for _, p := range o.Ports {
		switch {
		case p.Port != nil:
			ports = append(ports, fmt.Sprint(*p.Port))
		case p.Name != nil:
			ports = append(ports, *p.Name)
		}
	}
	for _, e := range o.Endpoints {
		endpoints = append(endpoints, e.Addresses...)
	}
	return []any{r.name, string(o.AddressType), unset(joinFirst(ports, 3)), unset(joinFirst(endpoints, 3)), r.age}
}

func unset(s string) string {
	if s == "<none>" {
		return "<unset>"
	}
	return s
}
