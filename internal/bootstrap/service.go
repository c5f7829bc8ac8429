package bootstrap

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// serviceName is that of the Service of the API server and of its endpoints, which
	// are in the namespace default.
	serviceName = "kubernetes"
	httpsPort   = 443
	portName    = "https"
)

// own returns the server's own objects: kubernetes pkg/controlplane, controllers
// kubernetesservice and reconcilers. The Controller restores them when they are changed or
// deleted.
func (c *Controller) own() []object {
	own := append(append(classes(), c.serviceRanges()...), c.trustObject()...)
	if !c.address.IsValid() {
		return own
	}
	return append(own, []object{
		{
			resource: core("services"), namespace: metav1.NamespaceDefault, name: serviceName, wanted: c.service(),
			correct: correction(func(there *corev1.Service) (bool, error) {
				wanted := c.service()
				if c.others != nil ||
					there.Spec.Type == wanted.Spec.Type && equality.Semantic.DeepEqual(there.Spec.Ports, wanted.Spec.Ports) {
					return false, nil // users may change the rest, as upstream
				}
				there.Spec.Type, there.Spec.Ports = wanted.Spec.Type, wanted.Spec.Ports
				return true, nil
			}),
		},
		{
			resource: core("endpoints"), namespace: metav1.NamespaceDefault, name: serviceName, wanted: c.endpoints(),
			led: true,
			correct: correction(func(there *corev1.Endpoints) (bool, error) { //nolint:staticcheck // clients may use EndpointSlice; a cluster has both
				wanted := c.endpoints()
				changed := set(&there.Labels, discoveryv1.LabelSkipMirror, "true")
				if equality.Semantic.DeepEqual(there.Subsets, wanted.Subsets) {
					return changed, nil
				}
				there.Subsets = wanted.Subsets
				return true, nil
			}),
		},
		{
			resource:  discoveryv1.Resource("endpointslices"),
			namespace: metav1.NamespaceDefault, name: serviceName, wanted: c.slice(), led: true,
			correct: correction(func(there *discoveryv1.EndpointSlice) (bool, error) {
				wanted := c.slice()
				if there.AddressType != wanted.AddressType {
					return false, errReplace
				}
				changed := set(&there.Labels, discoveryv1.LabelServiceName, serviceName)
				if equality.Semantic.DeepEqual(there.Endpoints, wanted.Endpoints) &&
					equality.Semantic.DeepEqual(there.Ports, wanted.Ports) {
					return changed, nil
				}
				there.Endpoints, there.Ports = wanted.Endpoints, wanted.Ports
				return true, nil
			}),
		},
	}...)
}

func (c *Controller) service() *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: httpsPort, TargetPort: intstr.FromInt32(c.port()),
			}},
		},
	}
	if c.ip != nil {
		s.Spec.ClusterIP = c.ip().String()
	}
	return s
}

func (c *Controller) port() int32 { return int32(c.address.Port()) }

func (c *Controller) endpoints() *corev1.Endpoints { //nolint:staticcheck // as above
	return &corev1.Endpoints{ //nolint:staticcheck // as above
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}, // the slice is made here
		},
		Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // as above
			Addresses: []corev1.EndpointAddress{{IP: c.address.Addr().String()}},
			Ports:     []corev1.EndpointPort{{Name: portName, Port: c.port(), Protocol: corev1.ProtocolTCP}},
		}},
	}
}

func (c *Controller) slice() *discoveryv1.EndpointSlice {
	family := discoveryv1.AddressTypeIPv4
	if c.address.Addr().Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelServiceName: serviceName},
		},
		AddressType: family,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{c.address.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: new(portName), Port: new(c.port()), Protocol: new(corev1.ProtocolTCP)}},
	}
}
