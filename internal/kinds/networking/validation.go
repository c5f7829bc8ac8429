package networking

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateIngress validates an Ingress.
func validateIngress(o *networkingv1.Ingress) field.ErrorList {
	var errs field.ErrorList
	if len(o.Spec.Rules) == 0 && o.Spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(check.Spec(), o.Spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if o.Spec.DefaultBackend != nil {
		errs = append(errs, checkBackend(check.Spec("defaultBackend"), o.Spec.DefaultBackend)...)
	}
	errs = append(errs, checkTLS(check.Spec("tls"), o.Spec.TLS)...)
	if class := o.Spec.IngressClassName; class != nil {
		errs = append(errs, check.Invalid(check.Spec("ingressClassName"), *class, validation.IsDNS1123Subdomain(*class))...)
	}
	for i, rule := range o.Spec.Rules {
		at := check.Spec("rules").Index(i)
		if host := rule.Host; host != "" {
			errs = append(errs, check.Invalid(at.Child("host"), host, hostProblems(host))...)
			if check.IsAddress(host) {
				errs = append(errs, field.Invalid(at.Child("host"), host, "must be a DNS name, not an IP address"))
			}
		}
		if rule.HTTP == nil {
			continue
		}
		if len(rule.HTTP.Paths) == 0 {
			errs = append(errs, field.Required(at.Child("http", "paths"), ""))
		}
		for j := range rule.HTTP.Paths {
			errs = append(errs, checkIngressPath(at.Child("http", "paths").Index(j), &rule.HTTP.Paths[j])...)
		}
	}
	return errs
}

func checkIngressPath(at *field.Path, path *networkingv1.HTTPIngressPath) field.ErrorList {
	if path.PathType == nil {
		return field.ErrorList{field.Required(at.Child("pathType"), "pathType must be specified")}
	}
	errs := checkURLPath(at, path.Path, *path.PathType)
	return append(errs, checkBackend(at.Child("backend"), &path.Backend)...)
}

// checkURLPath checks the path of URLs that a rule is about.
func checkURLPath(rule *field.Path, path string, kind networkingv1.PathType) field.ErrorList {
	at := rule.Child("path")
	absolute := func() field.ErrorList {
		if strings.HasPrefix(path, "/") {
			return nil
		}
		return field.ErrorList{field.Invalid(at, path, "must be an absolute path")}
	}
	switch kind {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
	case networkingv1.PathTypeImplementationSpecific:
		if path == "" {
			return nil
		}
		return absolute()
	default:
		return check.Known(rule, "pathType", kind, networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific,
			networkingv1.PathTypePrefix)
	}
	errs := absolute()
	for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
		if strings.Contains(path, part) {
			errs = append(errs, field.Invalid(at, path, "must not contain '"+part+"'"))
		}
	}
	for _, end := range []string{"/..", "/."} {
		if strings.HasSuffix(path, end) {
			errs = append(errs, field.Invalid(at, path, "cannot end with '"+end+"'"))
		}
	}
	return errs
}

// checkBackend checks what a rule leads to. Upstream reports a wrong port at the backend.
func checkBackend(at *field.Path, backend *networkingv1.IngressBackend) field.ErrorList {
	switch {
	case backend.Resource != nil && backend.Service != nil:
		return field.ErrorList{field.Invalid(at, "", "cannot set both resource and service backends")}
	case backend.Resource != nil:
		return checkLocalRef(at.Child("resource"), backend.Resource)
	case backend.Service == nil:
		return field.ErrorList{field.Invalid(at, "", "resource or service backend is required")}
	}
	service := at.Child("service")
	errs := check.Required(service, "name", backend.Service.Name, validation.IsDNS1123Label)
	port := backend.Service.Port
	switch {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(at, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, check.Invalid(service.Child("port", "name"), port.Name, kinds.PortName(port.Name))...)
	case port.Number == 0:
		errs = append(errs, field.Required(at, "port name or number is required"))
	default:
		errs = append(errs, check.PortNumber(service.Child("port", "number"), port.Number)...)
	}
	return errs
}

// checkLocalRef checks a reference to an object of any kind.
func checkLocalRef(at *field.Path, ref *corev1.TypedLocalObjectReference) field.ErrorList {
	var errs field.ErrorList
	if ref.APIGroup != nil {
		errs = append(errs, check.Invalid(at.Child("apiGroup"), *ref.APIGroup, validation.IsDNS1123Subdomain(*ref.APIGroup))...)
	}
	errs = append(errs, check.Required(at, "kind", ref.Kind, kinds.SegmentName)...)
	return append(errs, check.Required(at, "name", ref.Name, kinds.SegmentName)...)
}

// checkTLS checks the hosts of an ingress that use TLS, and its certificates.
func checkTLS(at *field.Path, tls []networkingv1.IngressTLS) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tls {
		for j, host := range t.Hosts {
			errs = append(errs, check.Invalid(at.Index(i).Child("hosts").Index(j), host, hostProblems(host))...)
		}
		if t.SecretName != "" {
			errs = append(errs,
				check.Invalid(at.Index(i).Child("secretName"), t.SecretName, validation.IsDNS1123Subdomain(t.SecretName))...)
		}
	}
	return errs
}

func hostProblems(host string) []string {
	if strings.Contains(host, "*") {
		return validation.IsWildcardDNS1123Subdomain(host)
	}
	return validation.IsDNS1123Subdomain(host)
}

// validateIngressClass validates an IngressClass.
func validateIngressClass(o *networkingv1.IngressClass) field.ErrorList {
	const longest = 250 // maxLenIngressClassController of pkg/apis/networking/validation
	errs := validation.IsDomainPrefixedPath(check.Spec("controller"), o.Spec.Controller)
	if len(o.Spec.Controller) > longest {
		errs = append(errs, field.TooLong(check.Spec("controller"), "", longest))
	}
	if o.Spec.Parameters == nil {
		return errs
	}
	at, p := check.Spec("parameters"), o.Spec.Parameters
	errs = append(errs, checkLocalRef(at, &corev1.TypedLocalObjectReference{APIGroup: p.APIGroup, Kind: p.Kind, Name: p.Name})...)
	if p.Scope == nil {
		return append(errs, field.Required(at.Child("scope"), ""))
	}
	const cluster, namespace = networkingv1.IngressClassParametersReferenceScopeCluster,
		networkingv1.IngressClassParametersReferenceScopeNamespace
	errs = append(errs, check.Known(at, "scope", *p.Scope, cluster, namespace)...)
	switch {
	case *p.Scope == namespace && p.Namespace == nil:
		errs = append(errs, field.Required(at.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == namespace:
		errs = append(errs, check.Invalid(at.Child("namespace"), *p.Namespace, validation.IsDNS1123Label(*p.Namespace))...)
	case *p.Scope == cluster && p.Namespace != nil:
		errs = append(errs, field.Forbidden(at.Child("namespace"), "`parameters.scope` is set to 'Cluster'"))
	}
	return errs
}

// validateIngressClassUpdate validates the change of an IngressClass from old to o.
func validateIngressClassUpdate(o, old *networkingv1.IngressClass) field.ErrorList {
	return check.Unchanged(check.Spec(), "controller", o.Spec.Controller, old.Spec.Controller)
}

// validateNewNetworkPolicy validates a new NetworkPolicy.
func validateNewNetworkPolicy(o *networkingv1.NetworkPolicy) field.ErrorList {
	return checkPolicy(o, nil)
}

// validateNetworkPolicyUpdate validates the change of a NetworkPolicy from old to o. Any of its rules
// may have any range that old had anywhere, as upstream.
func validateNetworkPolicyUpdate(o, old *networkingv1.NetworkPolicy) field.ErrorList {
	var kept []string
	keep := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if peer.IPBlock != nil {
				kept = append(append(kept, peer.IPBlock.CIDR), peer.IPBlock.Except...)
			}
		}
	}
	for _, rule := range old.Spec.Ingress {
		keep(rule.From)
	}
	for _, rule := range old.Spec.Egress {
		keep(rule.To)
	}
	return checkPolicy(o, kept)
}

// checkPolicy checks a policy, of which kept are the ranges that it had before.
func checkPolicy(o *networkingv1.NetworkPolicy, kept []string) field.ErrorList {
	errs := check.LabelSelector(check.Spec("podSelector"), &o.Spec.PodSelector)
	if len(o.Spec.PolicyTypes) > 2 {
		errs = append(errs,
			field.Invalid(check.Spec("policyTypes"), o.Spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range o.Spec.PolicyTypes {
		errs = append(errs,
			check.Known(check.Spec("policyTypes").Index(i), "", t, networkingv1.PolicyTypeIngress,
				networkingv1.PolicyTypeEgress)...)
	}
	for i, rule := range o.Spec.Ingress {
		at := check.Spec("ingress").Index(i)
		errs = append(errs, checkPolicyPorts(at.Child("ports"), rule.Ports)...)
		errs = append(errs, checkPolicyPeers(at.Child("from"), rule.From, kept)...)
	}
	for i, rule := range o.Spec.Egress {
		at := check.Spec("egress").Index(i)
		errs = append(errs, checkPolicyPorts(at.Child("ports"), rule.Ports)...)
		errs = append(errs, checkPolicyPeers(at.Child("to"), rule.To, kept)...)
	}
	return errs
}

func checkPolicyPorts(at *field.Path, ports []networkingv1.NetworkPolicyPort) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		errs = append(errs, checkPolicyPort(at.Index(i), &ports[i])...)
	}
	return errs
}

func checkPolicyPeers(list *field.Path, peers []networkingv1.NetworkPolicyPeer, kept []string) field.ErrorList {
	var errs field.ErrorList
	for i, peer := range peers {
		at := list.Index(i)
		switch {
		case peer.IPBlock != nil && (peer.PodSelector != nil || peer.NamespaceSelector != nil):
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		case equality.Semantic.DeepEqual(peer, networkingv1.NetworkPolicyPeer{}):
			errs = append(errs, field.Required(at, "must specify a peer"))
		}
		if peer.IPBlock != nil {
			errs = append(errs, checkIPBlock(at.Child("ipBlock"), peer.IPBlock, kept)...)
		}
		if peer.PodSelector != nil {
			errs = append(errs, check.LabelSelector(at.Child("podSelector"), peer.PodSelector)...)
		}
		if peer.NamespaceSelector != nil {
			errs = append(errs, check.LabelSelector(at.Child("namespaceSelector"), peer.NamespaceSelector)...)
		}
	}
	return errs
}

func checkPolicyPort(at *field.Path, port *networkingv1.NetworkPolicyPort) field.ErrorList {
	errs := check.KnownIfSet(at, "protocol", port.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
	if port.Port != nil {
		errs = append(errs, check.PortOrName(at.Child("port"), *port.Port)...)
	}
	end := at.Child("endPort")
	switch {
	case port.EndPort == nil:
	case port.Port == nil:
		errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is not specified"))
	case port.Port.Type == intstr.String:
		errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric"))
	case *port.EndPort < port.Port.IntVal:
		errs = append(errs, field.Invalid(end, *port.EndPort, "must be greater than or equal to `port`"))
	default:
		errs = append(errs, check.PortNumber(end, *port.EndPort)...)
	}
	return errs
}

// checkIPBlock checks a range of addresses, and the ranges within it that are left out.
func checkIPBlock(at *field.Path, block *networkingv1.IPBlock, kept []string) field.ErrorList {
	if block.CIDR == "" {
		return field.ErrorList{field.Required(at.Child("cidr"), "")}
	}
	errs := check.CIDR(at.Child("cidr"), block.CIDR, kept)
	_, whole, err := netutils.ParseCIDRSloppy(block.CIDR)
	if err != nil {
		return errs
	}
	bits, _ := whole.Mask.Size()
	for i, except := range block.Except {
		p := at.Child("except").Index(i)
		errs = append(errs, check.CIDR(p, except, kept)...)
		_, part, err := netutils.ParseCIDRSloppy(except)
		if err != nil {
			continue
		}
		if n, _ := part.Mask.Size(); !whole.Contains(part.IP) || bits >= n {
			errs = append(errs, field.Invalid(p, except, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

// validateIngressStatus validates a change of where an Ingress is reached.
func validateIngressStatus(o, old *networkingv1.Ingress) field.ErrorList {
	kept := make([]string, 0, len(old.Status.LoadBalancer.Ingress))
	for _, point := range old.Status.LoadBalancer.Ingress {
		kept = append(kept, point.IP)
	}
	var errs field.ErrorList
	for i, point := range o.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		errs = append(errs, check.PointIP(at, point.IP, kept)...)
		errs = append(errs, check.PointHost(at, point.Hostname)...)
	}
	return errs
}
