package networking

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func ingressTable() kinds.Table {
	return table.Of(ingressCells, table.Name(),
		table.Str("Class", "The name of the IngressClass resource that should be used for additional configuration"),
		table.Str("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
		table.Str("Address", "Address is a list containing ingress points for the load-balancer"),
		table.Str("Ports", "Ports of TLS configurations that open"),
		table.Age())
}

func ingressClassTable() kinds.Table {
	t := table.Of(ingressClassCells, table.Name(),
		table.Str("Controller", "Controller that is responsible for handling this class"),
		table.Str("Parameters", "A reference to a resource with additional parameters"),
		table.Age())
	t.RowsSince = 36
	return t
}

func networkPolicyTable() kinds.Table {
	return table.Of(func(o *networkingv1.NetworkPolicy, r table.Meta) []any {
		return []any{r.Name, metav1.FormatLabelSelector(&o.Spec.PodSelector), r.Age}
	}, table.Name(), table.Str("Pod-Selector", table.Doc(networkingv1.NetworkPolicySpec{}, "podSelector")), table.Age())
}

func serviceCIDRTable() kinds.Table {
	return table.Of(func(o *networkingv1.ServiceCIDR, r table.Meta) []any {
		return []any{r.Name, strings.Join(o.Spec.CIDRs, ","), r.Age}
	}, table.Name(), table.Str("CIDRs", table.Doc(networkingv1.ServiceCIDRSpec{}, "cidrs")), table.Age())
}

func addressTable() kinds.Table {
	return table.Of(addressCells, table.Name(), table.Str("ParentRef", table.Doc(networkingv1.IPAddressSpec{}, "parentRef")))
}

func ingressCells(o *networkingv1.Ingress, r table.Meta) []any {
	var points []string
	for _, ingress := range o.Status.LoadBalancer.Ingress {
		points = append(points, table.Or(ingress.IP, ingress.Hostname))
	}
	ports := "80"
	if len(o.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{
		r.Name,
		table.Text(o.Spec.IngressClassName, "<none>"),
		ingressHosts(o.Spec.Rules),
		strings.Join(table.Distinct(points), ","),
		ports,
		r.Age,
	}
}

// ingressHosts returns the first hosts, and how many rules there are besides, with a host
// or without.
func ingressHosts(rules []networkingv1.IngressRule) string {
	var hosts []string
	for _, rule := range rules {
		if len(hosts) == table.ShownAddresses {
			return fmt.Sprintf("%s + %d more...", strings.Join(hosts, ","), len(rules)-table.ShownAddresses)
		}
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	return table.Or(strings.Join(hosts, ","), "*")
}

func ingressClassCells(o *networkingv1.IngressClass, r table.Meta) []any {
	shown := r.Name
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
	return []any{shown, o.Spec.Controller, parameters, r.Age}
}

// addressCells has a cell more than there are columns, the age, as upstream.
func addressCells(o *networkingv1.IPAddress, r table.Meta) []any {
	parent := "<none>"
	if ref := o.Spec.ParentRef; ref != nil {
		of := schema.GroupResource{Group: ref.Group, Resource: ref.Resource}
		parent = strings.ToLower(of.String())
		if ref.Namespace != "" {
			parent += "/" + ref.Namespace
		}
		parent += "/" + ref.Name
	}
	return []any{r.Name, parent, r.Age}
}
