package core

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
)

// validateService validates a Service.
func validateService(o *corev1.Service) field.ErrorList {
	spec := &o.Spec
	errs := check.OneOf(check.Spec(), "type", spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	errs = append(errs,
		check.OneOf(check.Spec(), "sessionAffinity", spec.SessionAffinity, corev1.ServiceAffinityClientIP,
			corev1.ServiceAffinityNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, check.Spec("selector"))...)
	headless := len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone
	if spec.Type == corev1.ServiceTypeExternalName {
		errs = append(errs,
			check.Required(check.Spec(), "externalName", strings.TrimSuffix(spec.ExternalName, "."),
				validation.IsDNS1123Subdomain)...)
		if spec.ClusterIP != "" || len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(check.Spec("clusterIPs"), "may not be set for ExternalName services"))
		}
		if len(spec.IPFamilies) > 0 {
			errs = append(errs, field.Forbidden(check.Spec("ipFamilies"), "may not be set for ExternalName services"))
		}
		if spec.IPFamilyPolicy != nil {
			errs = append(errs, field.Forbidden(check.Spec("ipFamilyPolicy"), "may not be set for ExternalName services"))
		}
	} else if len(spec.Ports) == 0 && !headless {
		errs = append(errs, field.Required(check.Spec("ports"), ""))
	}
	if headless && (spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer) {
		errs = append(errs,
			field.Invalid(check.Spec("clusterIPs").Index(0), spec.ClusterIP,
				"may not be set to 'None' for "+string(spec.Type)+" services"))
	}
	names, used := map[string]bool{}, map[servicePort]bool{}
	for i := range spec.Ports {
		errs = append(errs, checkServicePort(check.Spec("ports").Index(i), &spec.Ports[i], len(spec.Ports) > 1, names)...)
		key := servicePort{spec.Ports[i].Protocol, spec.Ports[i].Port}
		if used[key] {
			errs = append(errs,
				field.Duplicate(check.Spec("ports").Index(i), corev1.ServicePort{Protocol: key.protocol, Port: key.port}))
		}
		used[key] = true
	}
	errs = append(errs, checkAffinityTimeout(spec)...)
	return append(errs, checkTraffic(spec)...)
}

func checkAffinityTimeout(spec *corev1.ServiceSpec) field.ErrorList {
	const longest = 86400 // 1 day: MaxClientIPServiceAffinitySeconds of pkg/apis/core/types.go
	config := spec.SessionAffinityConfig
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP || config == nil || config.ClientIP == nil ||
		config.ClientIP.TimeoutSeconds == nil {
		return nil
	}
	seconds := *config.ClientIP.TimeoutSeconds
	if seconds > 0 && seconds <= longest {
		return nil
	}
	at := check.Spec("sessionAffinityConfig", "clientIP", "timeoutSeconds")
	return field.ErrorList{field.Invalid(at, seconds, fmt.Sprintf("must be greater than 0 and less than %d", longest))}
}

// checkTraffic checks from where a service takes traffic, and to which endpoints it goes.
func checkTraffic(spec *corev1.ServiceSpec) field.ErrorList {
	errs := check.KnownIfSet(check.Spec(), "internalTrafficPolicy", spec.InternalTrafficPolicy,
		corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
	if isExternal(spec) {
		errs = append(errs, check.OneOf(check.Spec(), "externalTrafficPolicy", spec.ExternalTrafficPolicy,
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	}
	if class := spec.LoadBalancerClass; class != nil && spec.Type == corev1.ServiceTypeLoadBalancer {
		errs = append(errs, check.Invalid(check.Spec("loadBalancerClass"), *class, validation.IsQualifiedName(*class))...)
	}
	if how := spec.TrafficDistribution; how != nil { // upstream does not sort these
		known := []string{
			corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
			corev1.ServiceTrafficDistributionPreferSameNode,
		}
		if !slices.Contains(known, *how) {
			errs = append(errs, field.NotSupported(check.Spec("trafficDistribution"), *how, known))
		}
	}
	// Upstream requires a port where one is needed, and has allocated it before. Here it may be missing.
	switch port := spec.HealthCheckNodePort; {
	case port == 0:
	case spec.Type != corev1.ServiceTypeLoadBalancer || spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal:
		errs = append(errs,
			field.Invalid(check.Spec("healthCheckNodePort"), port,
				"may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	default:
		errs = append(errs, check.PortNumber(check.Spec("healthCheckNodePort"), port)...)
	}
	return errs
}

// isExternal reports whether a service can be reached from outside the cluster.
func isExternal(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
}

// validateNewService validates what a new Service must not have because of its type. A change of
// the type removes it.
func validateNewService(o *corev1.Service) field.ErrorList {
	spec := &o.Spec
	errs := otherAddresses(o, &corev1.Service{})
	errs = append(errs, checkNodePorts(spec)...)
	return append(errs, checkTypeMembers(spec, &corev1.ServiceSpec{})...)
}

// checkTypeMembers checks what a Service must not have because of its type, where that differs from what it had: earlier
// versions stored it.
func checkTypeMembers(spec, was *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if !isExternal(spec) && spec.ExternalTrafficPolicy != "" && spec.ExternalTrafficPolicy != was.ExternalTrafficPolicy {
		errs = append(errs,
			field.Invalid(check.Spec("externalTrafficPolicy"), spec.ExternalTrafficPolicy,
				"may only be set for externally-accessible services"))
	}
	balanced := spec.Type == corev1.ServiceTypeLoadBalancer
	if spec.LoadBalancerClass != nil && !balanced && was.LoadBalancerClass == nil {
		errs = append(errs, field.Forbidden(check.Spec("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'"))
	}
	if spec.AllocateLoadBalancerNodePorts != nil && !balanced && was.AllocateLoadBalancerNodePorts == nil {
		errs = append(errs,
			field.Forbidden(check.Spec("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"))
	}
	for i, port := range spec.Ports {
		if port.NodePort != 0 && spec.Type == corev1.ServiceTypeClusterIP && !reflect.DeepEqual(spec.Ports, was.Ports) {
			errs = append(errs,
				field.Forbidden(check.Spec("ports").Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
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
		errs = append(errs, check.Invalid(at.Child("name"), port.Name, validation.IsDNS1123Label(port.Name))...)
		if names[port.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
		}
		names[port.Name] = true
	}
	errs = append(errs, check.PortNumber(at.Child("port"), port.Port)...)
	errs = append(errs, check.Protocol(at, "protocol", port.Protocol)...)
	if port.AppProtocol != nil {
		errs = append(errs,
			check.Invalid(at.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))...)
	}
	return append(errs, check.PortOrName(at.Child("targetPort"), port.TargetPort)...)
}

// validateServiceUpdate validates the change of a Service: what was allocated for it stays as long as its
// type needs it. Upstream always has allocated something; here nothing is allocated, and a client
// may set what is missing. What an update leaves as it was is not checked: earlier versions stored
// any addresses and node ports.
func validateServiceUpdate(o, old *corev1.Service) field.ErrorList {
	errs := otherAddresses(o, old)
	now, was := &o.Spec, &old.Spec
	if !reflect.DeepEqual(now.Ports, was.Ports) {
		errs = append(errs, checkNodePorts(now)...)
	}
	errs = append(errs, checkTypeMembers(now, was)...)
	named := now.Type == corev1.ServiceTypeExternalName || was.Type == corev1.ServiceTypeExternalName
	if !named && !sameClusterIPs(now, was) {
		errs = append(errs, checkClusterIPsUpdate(now, was)...)
		errs = append(errs, checkFamiliesUpdate(now, was)...)
	}
	balanced := was.Type == corev1.ServiceTypeLoadBalancer && now.Type == corev1.ServiceTypeLoadBalancer
	if balanced && !reflect.DeepEqual(now.LoadBalancerClass, was.LoadBalancerClass) {
		errs = append(errs, field.Invalid(check.Spec("loadBalancerClass"), now.LoadBalancerClass, onceSet))
	}
	checked := balanced && was.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal &&
		now.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if checked && was.HealthCheckNodePort != 0 && now.HealthCheckNodePort != was.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(check.Spec("healthCheckNodePort"), check.Immutable))
	}
	return errs
}

// checkNodePorts requires each node port to belong to one port of a service.
func checkNodePorts(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	used := map[servicePort]bool{}
	for i, port := range spec.Ports {
		key := servicePort{port.Protocol, port.NodePort}
		if key.port != 0 && used[key] {
			errs = append(errs, field.Duplicate(check.Spec("ports").Index(i).Child("nodePort"), key.port))
		}
		used[key] = true
	}
	return errs
}

func isNoFamily(family corev1.IPFamily) bool {
	return family != corev1.IPv4Protocol && family != corev1.IPv6Protocol
}

// onceSet is upstream's text about addresses, which are not immutable: a second one may be added.
const onceSet = "may not change once set"

// checkClusterIPsUpdate checks the cluster IPs of a service that has them before and after
// (upstream's validateUpgradeDowngradeClusterIPs).
func checkClusterIPsUpdate(now, was *corev1.ServiceSpec) field.ErrorList {
	if headless(now) && headless(was) || len(was.ClusterIPs) == 0 {
		return nil
	}
	at := check.Spec("clusterIPs")
	if len(now.ClusterIPs) == 0 {
		return field.ErrorList{field.Invalid(at.Index(0), now.ClusterIPs, "primary clusterIP can not be unset")}
	}
	var errs field.ErrorList
	for i := range min(len(now.ClusterIPs), len(was.ClusterIPs)) {
		if now.ClusterIPs[i] != was.ClusterIPs[i] {
			errs = append(errs, field.Invalid(at.Index(i), now.ClusterIPs, onceSet))
		}
	}
	if len(now.ClusterIPs) < len(was.ClusterIPs) {
		errs = append(errs, releases(now, "secondary cluster IP")...)
	}
	return errs
}

// checkFamiliesUpdate is checkClusterIPsUpdate for the families of the addresses (upstream's
// validateUpgradeDowngradeIPFamilies).
func checkFamiliesUpdate(now, was *corev1.ServiceSpec) field.ErrorList {
	if headless(now) || headless(was) || len(was.IPFamilies) == 0 || slices.ContainsFunc(now.IPFamilies, isNoFamily) {
		return nil
	}
	var errs field.ErrorList
	for i := range min(len(now.IPFamilies), len(was.IPFamilies)) {
		if now.IPFamilies[i] != was.IPFamilies[i] {
			errs = append(errs, field.Invalid(check.Spec("ipFamilies").Index(0), now.IPFamilies, onceSet))
		}
	}
	if len(now.IPFamilies) < len(was.IPFamilies) {
		errs = append(errs, releases(now, "secondary IP family")...)
	}
	return errs
}

// releases requires that a service which loses one of two addresses asks for that.
func releases(now *corev1.ServiceSpec, what string) field.ErrorList {
	if policy := now.IPFamilyPolicy; policy != nil && *policy == corev1.IPFamilyPolicySingleStack {
		return nil
	}
	return field.ErrorList{
		field.Invalid(check.Spec("ipFamilyPolicy"), now.IPFamilyPolicy, "must be 'SingleStack' to release the "+what),
	}
}

func headless(spec *corev1.ServiceSpec) bool {
	return len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// validateServiceStatus validates a change of where a Service is reached.
func validateServiceStatus(o, old *corev1.Service) field.ErrorList {
	kept := make([]string, 0, len(old.Status.LoadBalancer.Ingress))
	for _, point := range old.Status.LoadBalancer.Ingress {
		kept = append(kept, point.IP)
	}
	if points := o.Status.LoadBalancer.Ingress; o.Spec.Type != corev1.ServiceTypeLoadBalancer && len(points) > 0 &&
		!reflect.DeepEqual(points, old.Status.LoadBalancer.Ingress) { // earlier versions stored any
		return field.ErrorList{field.Forbidden(field.NewPath("status", "loadBalancer", "ingress"),
			"may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var errs field.ErrorList
	for i, point := range o.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		errs = append(errs, check.PointIP(at, point.IP, kept)...)
		errs = append(errs, check.PointHost(at, point.Hostname)...)
		errs = append(errs,
			check.KnownIfSet(at, "ipMode", point.IPMode, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP)...)
		if point.IPMode != nil && point.IP == "" {
			errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		}
	}
	return errs
}
