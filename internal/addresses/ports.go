package addresses

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/wire"
)

// Ports are the node ports of a cluster. It is safe for concurrent use.
type Ports interface {
	// Allocate takes a port, and Next any. Errors: errPortsTaken, outOfRange, errFull, those of the store.
	Allocate(ctx context.Context, port int) error
	Next(ctx context.Context) (int, error)
	// Has reports whether a port is taken.
	Has(ctx context.Context, port int) (bool, error)
	give
}

// give ends what Allocate and Next have begun.
type give interface {
	// Undo gives ports back that were taken for a Service which was not written, and Done says that it was.
	Undo(ctx context.Context, ports []int)
	Done(ports []int)
	// Doubt says that it is not known whether it was.
	Doubt(ports []int)
	// Free gives ports back that a stored Service no longer has.
	Free(ctx context.Context, ports []int)
}

// portRange is a range of ports.
type portRange net.PortRange

func (r portRange) String() string { return (*net.PortRange)(&r).String() }

func (r portRange) has(port int) bool { return port >= r.Base && port < r.Base+r.Size }

// outOfRange has upstream's text (portallocator.ErrNotInRange).
func (r portRange) outOfRange() error {
	return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", r)
}

// free returns a port for which taken is false, of the larger part of the range if there is one; ok is false if there
// is none.
func (r portRange) free(taken func(port int) bool) (port int, ok bool) {
	static := int(band(uint64(r.Size), 32, 128)) //nolint:gosec // a range is not negative
	for _, part := range [][2]int{{static, r.Size}, {0, static}} {
		n := part[1] - part[0]
		if n <= 0 {
			continue
		}
		start := rand.IntN(n) //nolint:gosec // no secret
		for i := range n {
			if port = r.Base + part[0] + (start+i)%n; !taken(port) {
				return port, true
			}
		}
	}
	return 0, false
}

// allocatePort takes a port for the operation. Errors: those of Ports.
func (o *operation) allocatePort(ctx context.Context, port int) error {
	if !o.dryRun {
		err := o.allocator.ports.Allocate(ctx, port)
		if err == nil {
			o.ports = append(o.ports, port)
		}
		return err
	}
	has, err := o.allocator.ports.Has(ctx, port)
	if err != nil {
		return err
	}
	if has || slices.Contains(o.ports, port) {
		return errPortsTaken
	}
	o.ports = append(o.ports, port)
	return nil
}

// dummyPort is what upstream's dry run begins with.
const dummyPort = 32768

// nextPort takes any port for the operation; a dry run says one that may be taken, as upstream's.
func (o *operation) nextPort(ctx context.Context) (int32, error) {
	var port int
	var err error
	switch {
	case !o.dryRun:
		port, err = o.allocator.ports.Next(ctx)
	case len(o.ports) == 0:
		port = dummyPort + 1
	default:
		port = slices.Max(o.ports) + 1
	}
	if err == nil {
		o.ports = append(o.ports, port)
	}
	return int32(port), err //nolint:gosec // a port
}

// takePorts takes and gives back node ports, as the change of a Service from was, which is nil for a new one, needs it
// (upstream's txnAllocNodePorts and txnUpdateNodePorts).
func (o *operation) takePorts(ctx context.Context, now *corev1.Service, was *corev1.ServiceSpec) error {
	switch {
	case was == nil && exposed(&now.Spec):
		if err := o.newPorts(ctx, now); err != nil {
			return err
		}
	case was == nil:
	case exposed(&now.Spec):
		if err := o.changePorts(ctx, now, was); err != nil {
			return err
		}
	case exposed(was):
		o.freedPorts = append(o.freedPorts, nodePorts(was)...)
	}
	needs, had := checked(&now.Spec), was != nil && checked(was)
	switch {
	case needs && (!had || was.HealthCheckNodePort == 0):
		return o.healthPort(ctx, now)
	case had && !needs && was.HealthCheckNodePort != 0:
		o.freedPorts = append(o.freedPorts, int(was.HealthCheckNodePort))
	}
	return nil
}

// exposed reports whether a Service may have node ports, and allocates whether it gets those that it does not name.
func exposed(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

func allocates(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeLoadBalancer &&
			(spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts)
}

// checked reports whether a Service has a port for health checks.
func checked(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func nodePorts(spec *corev1.ServiceSpec) []int {
	var all []int
	for _, p := range spec.Ports {
		if p.NodePort != 0 {
			all = append(all, int(p.NodePort))
		}
	}
	return all
}

// newPorts takes the node ports of a new Service. Its ports of one number, of several protocols, share one (upstream's
// initNodePorts).
func (o *operation) newPorts(ctx context.Context, now *corev1.Service) error {
	spec := &now.Spec
	named, of := map[int32]int32{}, map[int32]int32{}
	for _, p := range slices.Backward(spec.Ports) {
		if p.NodePort != 0 {
			named[p.Port] = p.NodePort // the first one that is named
		}
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.NodePort == 0 && !allocates(spec) {
			continue
		}
		given, shared := of[p.Port]
		switch want := named[p.Port]; {
		case shared && (p.NodePort == 0 || p.NodePort == given):
			p.NodePort = given
			continue
		case shared:
			if err := o.allocatePort(ctx, int(p.NodePort)); err != nil {
				return portError(now, i, p.NodePort, err)
			}
			continue
		case want != 0:
			if err := o.allocatePort(ctx, int(want)); err != nil {
				return portError(now, i, want, err)
			}
			p.NodePort = want
		default:
			port, err := o.nextPort(ctx)
			if err != nil {
				return nextError(err)
			}
			p.NodePort = port
		}
		of[p.Port] = p.NodePort
	}
	return nil
}

// changePorts takes the node ports that a Service gets in addition, and gives back those that it has no longer
// (upstream's updateNodePorts).
func (o *operation) changePorts(ctx context.Context, now *corev1.Service, was *corev1.ServiceSpec) error {
	type one struct {
		Protocol corev1.Protocol
		NodePort int32
	}
	spec := &now.Spec
	had, seen := setOf(nodePorts(was)), map[one]bool{}
	taken := map[int]bool{}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		port := int(p.NodePort)
		switch {
		case port == 0 && !allocates(spec):
			continue
		case port == 0:
			next, err := o.nextPort(ctx)
			if err != nil {
				return nextError(err)
			}
			p.NodePort = next
		case !had[port] && !taken[port]:
			if err := o.allocatePort(ctx, port); err != nil {
				return portError(now, i, p.NodePort, err)
			}
			taken[port] = true
		}
		key := one{p.Protocol, p.NodePort}
		if seen[key] {
			return &wire.StatusError{ErrStatus: metav1.Status{ // upstream's error has no reason
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: fmt.Sprintf("duplicate nodePort: %v", key),
			}}
		}
		seen[key] = true
	}
	has := setOf(nodePorts(spec))
	for _, port := range nodePorts(was) {
		if !has[port] {
			o.freedPorts = append(o.freedPorts, port)
		}
	}
	return nil
}

func setOf(ports []int) map[int]bool {
	set := make(map[int]bool, len(ports))
	for _, port := range ports {
		set[port] = true
	}
	return set
}

// healthPort takes the port for health checks (upstream's allocHealthCheckNodePort).
func (o *operation) healthPort(ctx context.Context, now *corev1.Service) error {
	if port := now.Spec.HealthCheckNodePort; port != 0 {
		if err := o.allocatePort(ctx, int(port)); err != nil {
			return failed(err, fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", port, err))
		}
		return nil
	}
	port, err := o.nextPort(ctx)
	if err != nil {
		return failed(err, fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", port, err))
	}
	now.Spec.HealthCheckNodePort = port
	return nil
}

// portError is 422 for a port that a client has chosen.
func portError(now *corev1.Service, i int, port int32, err error) error {
	if isStatus(err) {
		return err
	}
	return invalid(now, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port, err.Error()))
}

func nextError(err error) error {
	return failed(err, fmt.Errorf("failed to allocate a nodePort: %w", err))
}

// failed is 500 that says why; what the store says of a failure that passes stays as it is.
func failed(err, says error) error {
	if isStatus(err) {
		return err
	}
	return wire.Internal(says)
}

func isStatus(err error) bool {
	_, is := errors.AsType[*wire.StatusError](err)
	return is || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
