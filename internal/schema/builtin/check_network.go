package builtin

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkService(o *corev1.Service) field.ErrorList {
	spec := &o.Spec
	errs := oneOf(specPath("type"), spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	errs = append(errs, oneOf(specPath("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, specPath("selector"))...)
	headless := spec.ClusterIP == corev1.ClusterIPNone
	if spec.Type == corev1.ServiceTypeExternalName {
		errs = append(errs, required(specPath("externalName"), strings.TrimSuffix(spec.ExternalName, "."), validation.IsDNS1123Subdomain)...)
		if spec.ClusterIP != "" {
			errs = append(errs, field.Forbidden(specPath("clusterIPs"), "may not be set for ExternalName services"))
		}
	} else if len(spec.Ports) == 0 && !headless {
		errs = append(errs, field.Required(specPath("ports"), ""))
	}
	if headless && (spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer) {
		errs = append(errs, field.Invalid(specPath("clusterIPs").Index(0), spec.ClusterIP, "may not be set to 'None' for "+string(spec.Type)+" services"))
	}
	names, used := map[string]bool{}, map[servicePort]bool{}
	for i := range spec.Ports {
		errs = append(errs, checkServicePort(specPath("ports").Index(i), &spec.Ports[i], len(spec.Ports) > 1, names)...)
		key := servicePort{spec.Ports[i].Protocol, spec.Ports[i].Port}
		if used[key] {
			errs = append(errs, field.Duplicate(specPath("ports").Index(i), corev1.ServicePort{Protocol: key.protocol, Port: key.port}))
		}
		used[key] = true
	}
	return errs
}

type servicePort struct {
	protocol corev1.Protocol
	port     int32
}

// checkServicePort checks one port; names are those of the ports before it, and
// with several ports each needs one.
func checkServicePort(at *field.Path, port *corev1.ServicePort, several bool, names map[string]bool) field.ErrorList {
	var errs field.ErrorList
	switch {
	case port.Name == "" && several:
		errs = append(errs, field.Required(at.Child("name"), ""))
	case port.Name != "":
		errs = append(errs, invalidBecause(at.Child("name"), port.Name, validation.IsDNS1123Label(port.Name))...)
		if names[port.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
		}
		names[port.Name] = true
	}
	errs = append(errs, portNumber(at.Child("port"), port.Port)...)
	errs = append(errs, checkProtocol(at.Child("protocol"), port.Protocol)...)
	if port.TargetPort.Type == intstr.String || port.TargetPort.IntVal != 0 {
		errs = append(errs, portOrName(at.Child("targetPort"), port.TargetPort)...)
	}
	return errs
}

// keepService keeps a cluster IP once there is one, as long as the type needs it.
func keepService(o, old *corev1.Service) field.ErrorList {
	if o.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.ClusterIP == "" {
		return nil
	}
	return kept(specPath("clusterIPs").Index(0), o.Spec.ClusterIP, old.Spec.ClusterIP)
}

func checkEndpoints(o *corev1.Endpoints) field.ErrorList { //nolint:staticcheck // clients may use EndpointSlice; a server serves both
	var errs field.ErrorList
	for i, subset := range o.Subsets {
		at := field.NewPath("subsets").Index(i)
		if len(subset.Addresses)+len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j, a := range subset.Addresses {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("addresses").Index(j).Child("ip"), a.IP, false, nil)...)
		}
		for j, a := range subset.NotReadyAddresses {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("notReadyAddresses").Index(j).Child("ip"), a.IP, false, nil)...)
		}
		for j, port := range subset.Ports {
			p := at.Child("ports").Index(j)
			if port.Name == "" && len(subset.Ports) > 1 {
				errs = append(errs, field.Required(p.Child("name"), ""))
			}
			errs = append(errs, portNumber(p.Child("port"), port.Port)...)
			errs = append(errs, checkProtocol(p.Child("protocol"), port.Protocol)...)
		}
	}
	return errs
}

func checkEndpointSlice(o *discoveryv1.EndpointSlice) field.ErrorList {
	const maxEndpoints, maxAddresses = 1000, 100
	errs := oneOf(field.NewPath("addressType"), o.AddressType, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	endpoints := field.NewPath("endpoints")
	if len(o.Endpoints) > maxEndpoints {
		errs = append(errs, field.TooMany(endpoints, len(o.Endpoints), maxEndpoints))
	}
	for i, e := range o.Endpoints {
		at := endpoints.Index(i).Child("addresses")
		switch n := len(e.Addresses); {
		case n == 0:
			errs = append(errs, field.Required(at, "must contain at least 1 address"))
		case n > maxAddresses:
			errs = append(errs, field.TooMany(at, n, maxAddresses))
		}
	}
	names := map[string]bool{}
	for i, port := range o.Ports {
		at := field.NewPath("ports").Index(i)
		if port.Name != nil {
			if names[*port.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), *port.Name))
			}
			names[*port.Name] = true
		}
		if port.Protocol != nil {
			errs = append(errs, checkProtocol(at.Child("protocol"), *port.Protocol)...)
		}
	}
	return errs
}

func keepEndpointSlice(o, old *discoveryv1.EndpointSlice) field.ErrorList {
	return kept(field.NewPath("addressType"), o.AddressType, old.AddressType)
}

func checkLease(o *coordinationv1.Lease) field.ErrorList {
	spec := &o.Spec
	errs := positive(specPath("leaseDurationSeconds"), spec.LeaseDurationSeconds)
	errs = append(errs, notNegative(specPath("leaseTransitions"), spec.LeaseTransitions)...)
	if spec.HolderIdentity != nil && *spec.HolderIdentity == "" && spec.PreferredHolder != nil {
		errs = append(errs, field.Invalid(specPath("holderIdentity"), "", "must not be empty"))
	}
	return errs
}

func checkIngress(o *networkingv1.Ingress) field.ErrorList {
	var errs field.ErrorList
	if len(o.Spec.Rules) == 0 && o.Spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(specPath(), o.Spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if o.Spec.DefaultBackend != nil {
		errs = append(errs, checkBackend(specPath("defaultBackend"), o.Spec.DefaultBackend)...)
	}
	for i, rule := range o.Spec.Rules {
		at := specPath("rules").Index(i)
		if host := rule.Host; host != "" {
			valid := validation.IsDNS1123Subdomain
			if strings.Contains(host, "*") {
				valid = validation.IsWildcardDNS1123Subdomain
			}
			errs = append(errs, invalidBecause(at.Child("host"), host, valid(host))...)
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
	var errs field.ErrorList
	if path.PathType == nil {
		errs = append(errs, field.Required(at.Child("pathType"), "pathType must be specified"))
	} else {
		errs = append(errs, oneOf(at.Child("pathType"), *path.PathType,
			networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix)...)
		exact := *path.PathType != networkingv1.PathTypeImplementationSpecific || path.Path != ""
		if exact && !strings.HasPrefix(path.Path, "/") {
			errs = append(errs, field.Invalid(at.Child("path"), path.Path, "must be an absolute path"))
		}
	}
	return append(errs, checkBackend(at.Child("backend"), &path.Backend)...)
}

func checkBackend(at *field.Path, backend *networkingv1.IngressBackend) field.ErrorList {
	switch {
	case backend.Resource != nil && backend.Service != nil:
		return field.ErrorList{field.Invalid(at, "", "cannot set both resource and service backends")}
	case backend.Resource != nil:
		return nil
	case backend.Service == nil:
		return field.ErrorList{field.Required(at, "service or resource must be specified")}
	}
	service := at.Child("service")
	errs := required(service.Child("name"), backend.Service.Name, validation.IsDNS1035Label)
	port := backend.Service.Port
	switch {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(service, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, invalidBecause(service.Child("port", "name"), port.Name, validation.IsValidPortName(port.Name))...)
	case port.Number == 0:
		errs = append(errs, field.Required(service, "port name or number is required"))
	default:
		errs = append(errs, portNumber(service.Child("port", "number"), port.Number)...)
	}
	return errs
}

func checkIngressClass(o *networkingv1.IngressClass) field.ErrorList {
	if o.Spec.Controller == "" {
		return nil
	}
	return validation.IsDomainPrefixedPath(specPath("controller"), o.Spec.Controller)
}

func keepIngressClass(o, old *networkingv1.IngressClass) field.ErrorList {
	return kept(specPath("controller"), o.Spec.Controller, old.Spec.Controller)
}

func checkNetworkPolicy(o *networkingv1.NetworkPolicy) field.ErrorList {
	errs := labelSelector(specPath("podSelector"), &o.Spec.PodSelector)
	for i, t := range o.Spec.PolicyTypes {
		errs = append(errs, oneOf(specPath("policyTypes").Index(i), t, networkingv1.PolicyTypeEgress, networkingv1.PolicyTypeIngress)...)
	}
	for i, rule := range o.Spec.Ingress {
		at := specPath("ingress").Index(i)
		errs = append(errs, checkPolicyRule(at.Child("ports"), rule.Ports, at.Child("from"), rule.From)...)
	}
	for i, rule := range o.Spec.Egress {
		at := specPath("egress").Index(i)
		errs = append(errs, checkPolicyRule(at.Child("ports"), rule.Ports, at.Child("to"), rule.To)...)
	}
	return errs
}

func checkPolicyRule(portsAt *field.Path, ports []networkingv1.NetworkPolicyPort, peersAt *field.Path, peers []networkingv1.NetworkPolicyPeer) field.ErrorList {
	var errs field.ErrorList
	for i, port := range ports {
		if port.Protocol != nil {
			errs = append(errs, checkProtocol(portsAt.Index(i).Child("protocol"), *port.Protocol)...)
		}
		if port.Port != nil {
			errs = append(errs, portOrName(portsAt.Index(i).Child("port"), *port.Port)...)
		}
	}
	for i, peer := range peers {
		at := peersAt.Index(i)
		switch {
		case peer.IPBlock != nil && (peer.PodSelector != nil || peer.NamespaceSelector != nil):
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		case equality.Semantic.DeepEqual(peer, networkingv1.NetworkPolicyPeer{}):
			errs = append(errs, field.Required(at, "must specify a peer"))
		}
		if peer.IPBlock != nil {
			errs = append(errs, validation.IsValidCIDR(at.Child("ipBlock", "cidr"), peer.IPBlock.CIDR)...)
		}
		if peer.PodSelector != nil {
			errs = append(errs, labelSelector(at.Child("podSelector"), peer.PodSelector)...)
		}
		if peer.NamespaceSelector != nil {
			errs = append(errs, labelSelector(at.Child("namespaceSelector"), peer.NamespaceSelector)...)
		}
	}
	return errs
}
