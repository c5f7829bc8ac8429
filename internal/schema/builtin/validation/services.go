package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/schema/builtin/validation/check"
)

// Service validates a Service.
func Service(o *corev1.Service) field.ErrorList {
	spec := &o.Spec
	errs := check.OneOf(check.Spec(), "type", spec.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)
	errs = append(errs, check.OneOf(check.Spec(), "sessionAffinity", spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.Selector, check.Spec("selector"))...)
	headless := len(spec.ClusterIPs) == 1 && spec.ClusterIPs[0] == corev1.ClusterIPNone
	if spec.Type == corev1.ServiceTypeExternalName {
		errs = append(errs, check.Required(check.Spec(), "externalName", strings.TrimSuffix(spec.ExternalName, "."), validation.IsDNS1123Subdomain)...)
		if spec.ClusterIP != "" {
			errs = append(errs, field.Forbidden(check.Spec("clusterIPs"), "may not be set for ExternalName services"))
		}
	} else if len(spec.Ports) == 0 && !headless {
		errs = append(errs, field.Required(check.Spec("ports"), ""))
	}
	if headless && (spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer) {
		errs = append(errs, field.Invalid(check.Spec("clusterIPs").Index(0), spec.ClusterIP, "may not be set to 'None' for "+string(spec.Type)+" services"))
	}
	names, used := map[string]bool{}, map[servicePort]bool{}
	for i := range spec.Ports {
		errs = append(errs, checkServicePort(check.Spec("ports").Index(i), &spec.Ports[i], len(spec.Ports) > 1, names)...)
		key := servicePort{spec.Ports[i].Protocol, spec.Ports[i].Port}
		if used[key] {
			errs = append(errs, field.Duplicate(check.Spec("ports").Index(i), corev1.ServicePort{Protocol: key.protocol, Port: key.port}))
		}
		used[key] = true
	}
	errs = append(errs, checkAffinityTimeout(spec)...)
	return append(errs, checkTraffic(spec)...)
}

func checkAffinityTimeout(spec *corev1.ServiceSpec) field.ErrorList {
	const longest = 86400 // 1 day: MaxClientIPServiceAffinitySeconds of pkg/apis/core/types.go
	config := spec.SessionAffinityConfig
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP || config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
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
	errs = append(errs, check.KnownIfSet(check.Spec(), "ipFamilyPolicy", spec.IPFamilyPolicy,
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)...)
	for i, family := range spec.IPFamilies {
		p := check.Spec("ipFamilies").Index(i)
		errs = append(errs, check.Known(p, "", family, corev1.IPv4Protocol, corev1.IPv6Protocol)...)
		if slices.Contains(spec.IPFamilies[:i], family) {
			errs = append(errs, field.Duplicate(p, family))
		}
	}
	if class := spec.LoadBalancerClass; class != nil && spec.Type == corev1.ServiceTypeLoadBalancer {
		errs = append(errs, check.Invalid(check.Spec("loadBalancerClass"), *class, validation.IsQualifiedName(*class))...)
	}
	errs = append(errs, check.KnownIfSet(check.Spec(), "trafficDistribution", spec.TrafficDistribution,
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameNode, corev1.ServiceTrafficDistributionPreferSameZone)...)
	if port := spec.HealthCheckNodePort; port != 0 {
		errs = append(errs, check.PortNumber(check.Spec("healthCheckNodePort"), port)...)
	}
	return errs
}

// isExternal reports whether a service can be reached from outside the cluster.
func isExternal(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
}

// NewService validates what a new Service must not have because of its type. A change of
// the type removes it.
func NewService(o *corev1.Service) field.ErrorList {
	spec := &o.Spec
	errs := serviceAddresses(o, &corev1.Service{})
	if !isExternal(spec) && spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(check.Spec("externalTrafficPolicy"), spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if spec.LoadBalancerClass != nil && spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(check.Spec("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'"))
	}
	if spec.AllocateLoadBalancerNodePorts != nil && spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(check.Spec("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"))
	}
	for i, port := range spec.Ports {
		if port.NodePort != 0 && spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(check.Spec("ports").Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
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
		errs = append(errs, check.Invalid(at.Child("appProtocol"), *port.AppProtocol, validation.IsQualifiedName(*port.AppProtocol))...)
	}
	return append(errs, check.PortOrName(at.Child("targetPort"), port.TargetPort)...)
}

// ServiceUpdate validates the change of a Service: a cluster IP stays as long as the type
// needs it.
func ServiceUpdate(o, old *corev1.Service) field.ErrorList {
	errs := serviceAddresses(o, old)
	now, was := o.Spec.ClusterIPs, old.Spec.ClusterIPs
	first := check.Spec("clusterIPs").Index(0)
	switch {
	case o.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName || len(was) == 0:
	case len(now) == 0:
		errs = append(errs, field.Invalid(first, now, "primary clusterIP can not be unset"))
	case now[0] != was[0]:
		errs = append(errs, field.Invalid(first, now, "may not change once set"))
	}
	return errs
}
