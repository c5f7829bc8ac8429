package quota

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// services are measured by their ports.
type services struct{}

func (services) matches(name corev1.ResourceName) bool {
	return name == corev1.ResourceServices || name == corev1.ResourceServicesNodePorts ||
		name == corev1.ResourceServicesLoadBalancers || name == countOf(kinds.GroupResource{Resource: "services"})
}

func (services) item(decode func(any) error) (Item, error) {
	var s service
	err := decode(&s.Service)
	return s, err
}

// service is a Service.
type service struct{ corev1.Service }

// Missing implements Item.
func (service) Missing([]corev1.ResourceName) error { return nil }

// InScope implements Item.
func (service) InScope(corev1.ScopedResourceSelectorRequirement) (bool, error) { return false, nil }

// Usage implements Item. Node ports are those that will be allocated.
func (s service) Usage() corev1.ResourceList {
	var balancers, ports int64
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		ports = int64(len(s.Spec.Ports))
	case corev1.ServiceTypeLoadBalancer:
		balancers, ports = 1, int64(len(s.Spec.Ports))
		if allocate := s.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
			ports = 0
			for _, p := range s.Spec.Ports {
				if p.NodePort != 0 {
					ports++
				}
			}
		}
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName:
	}
	return corev1.ResourceList{
		countOf(kinds.GroupResource{Resource: "services"}): number(1),
		corev1.ResourceServices:                            number(1),
		corev1.ResourceServicesLoadBalancers:               number(balancers),
		corev1.ResourceServicesNodePorts:                   number(ports),
	}
}
