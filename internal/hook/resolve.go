package hook

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster knows where the services of the cluster are. It reads memory only.
type Cluster interface {
	// Service returns a Service, nil if there is none.
	Service(namespace, name string) *wire.Object
	// Endpoints returns the EndpointSlices of a Service.
	Endpoints(namespace, service string) []*wire.Object
}

// Resolve returns the address of a service, host:port. There is no cluster network here, so that the
// addresses of its EndpointSlices come first, then its external name, and its cluster IP last,
// for a machine that routes it (kube-aggregator apiserver.NewEndpointServiceResolver and
// NewClusterIPServiceResolver).
func Resolve(cluster Cluster, s *kinds.ServiceReference) (address string, err error) {
	o := cluster.Service(s.Namespace, s.Name)
	if o == nil {
		return "", fmt.Errorf("service %q not found in namespace %q: create it, or set clientConfig.url", s.Name, s.Namespace)
	}
	var service corev1.Service
	if err := json.Unmarshal(o.JSON(), &service); err != nil {
		return "", fmt.Errorf("read service %s/%s: %w", s.Namespace, s.Name, err)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(s.Port))), nil
	}
	port := portOf(&service, s.Port)
	if port == nil {
		return "", fmt.Errorf("no service port %d found for service %q", s.Port, s.Name)
	}
	if found := addresses(cluster.Endpoints(s.Namespace, s.Name), port.Name); len(found) > 0 {
		return found[rand.N(len(found))], nil //nolint:gosec // which one is called is no secret
	}
	if ip := service.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		return net.JoinHostPort(ip, strconv.Itoa(int(port.Port))), nil
	}
	return "", fmt.Errorf("no endpoints available for service %q in namespace %q, which has no cluster IP: "+
		"this server has no cluster network; add an EndpointSlice with a ready address, make the service of type ExternalName, "+
		"or set clientConfig.url",
		s.Name, s.Namespace)
}

// portOf returns the port of a service; nil if it has none of this number.
func portOf(service *corev1.Service, number int32) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		if p := &service.Spec.Ports[i]; p.Port == number {
			return p
		}
	}
	return nil
}

// addresses returns the ready addresses for a port.
func addresses(slices []*wire.Object, port string) []string {
	var found []string
	for _, o := range slices {
		var slice discoveryv1.EndpointSlice
		if json.Unmarshal(o.JSON(), &slice) != nil {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != port || p.Name == nil && port != "" {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready {
					continue
				}
				for _, address := range e.Addresses {
					found = append(found, net.JoinHostPort(address, strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return found
}
