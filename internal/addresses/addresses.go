// Package addresses gives Services their cluster IPs and node ports, as kube-apiserver 1.37 does
// (pkg/registry/core/service).
//
// An [Allocator] is asked by the registry about each write of a Service (registry.Allocator), before its rules are
// checked: it completes the IP families (families.go), and takes addresses and ports for it. A cluster IP is taken by
// creating the IPAddress of its name, which no two servers can do; the ranges are those of the ServiceCIDRs
// (ranges.go, ips.go). Node ports are in [Ports]: over etcd in the object RangeAllocation that kube-apiserver has there,
// which changes by compare-and-swap ([Shared], shared.go); a server that has its store for itself knows them from the
// Services (memory.go).
//
// What is taken is taken before the Service is written, and given back when it is not. A server that ends in between
// leaves it taken: [Allocator.Repair] finds that, and Services whose addresses are not taken (repair.go).
package addresses

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verbs is what an Allocator needs of a registry.
type Verbs interface {
	Create(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error)
	Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error)
	// Fresh waits until followers have all acknowledged writes of a resource, but for objects that cannot be read.
	Fresh(ctx context.Context, gr kinds.GroupResource) error
	// Unread returns an error that names an object whose latest value cannot be read: of one key, or (none) of any;
	// nil: there is none.
	Unread(gr kinds.GroupResource, key wire.Key) error
	// UnknownOf is Unread for objects of which no earlier value is known.
	UnknownOf(gr kinds.GroupResource, namespace, name string) error
}

// Config configures an Allocator. Verbs, Live and Logger are required.
type Config struct {
	Verbs Verbs
	Live  *kinds.Live
	// Ranges are those of cluster IPs while there is no ServiceCIDR "kubernetes": one, or one of each family, the
	// default first. Named says that somebody has named them: then their families are those that new Services can have,
	// as upstream has them of the flag. Otherwise those of the ServiceCIDR are.
	Ranges []netip.Prefix
	Named  bool
	// NodePorts is the range of node ports.
	NodePorts net.PortRange
	// Shared is the registration of node ports that other servers use too; nil: there are no others.
	Shared *Shared
	Logger *slog.Logger
}

// Allocator allocates what Services need. It is a registry.Allocator and a registry.Follower, and safe for concurrent
// use.
type Allocator struct {
	*state

	verbs  Verbs
	live   *kinds.Live
	ports  Ports
	shared bool
	in     portRange // that is configured
	flight flight
	repair repair
	logger *slog.Logger
}

var (
	_ registry.Allocator = (*Allocator)(nil)
	_ registry.Follower  = (*Allocator)(nil)
)

// New returns an Allocator; it starts nothing.
func New(cfg Config) *Allocator {
	a := &Allocator{
		state: newState(cfg.Ranges, cfg.Named), verbs: cfg.Verbs, live: cfg.Live, shared: cfg.Shared != nil, logger: cfg.Logger,
		in:     portRange(cfg.NodePorts),
		repair: repair{warned: map[string]bool{}},
	}
	if a.shared {
		a.ports = newSharedPorts(cfg.Shared, a)
	} else {
		a.ports = &memory{state: a.state, in: portRange(cfg.NodePorts), reserved: map[int]time.Time{}}
	}
	return a
}

// First returns the address of the Service "kubernetes": the first one of the default range.
func (a *Allocator) First() netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rangesLocked()
	if len(a.known) == 0 {
		return netip.Addr{}
	}
	return a.known[0].first
}

// Allocate implements registry.Allocator.
func (a *Allocator) Allocate(
	ctx context.Context, u, old *unstructured.Unstructured, dryRun bool,
) (end func(context.Context, admission.Outcome), err error) {
	now, err := read(u)
	if err != nil {
		return nil, err
	}
	var was *corev1.Service
	if old != nil {
		if was, err = read(old); err != nil {
			return nil, err
		}
	}
	if err := a.verbs.UnknownOf(rangesResource(), "", ""); err != nil && now.Spec.Type != corev1.ServiceTypeExternalName {
		return nil, wire.Internal(fmt.Errorf("it is not known which addresses Services can have: %w", err))
	}
	o := &operation{allocator: a, key: wire.Key{Namespace: now.Namespace, Name: now.Name}, dryRun: dryRun}
	done := false
	defer func() {
		if !done { // also after a panic
			o.end(context.WithoutCancel(ctx), admission.Refused)
		}
	}()
	if err := o.allocate(ctx, now, was); err != nil {
		return nil, err
	}
	write(u, now)
	done = true
	return o.end, nil
}

// allocate completes a Service, which was another before, or nil.
func (o *operation) allocate(ctx context.Context, now, was *corev1.Service) error {
	_, all := o.allocator.present("")
	if was != nil {
		all.completeStored(&was.Spec)
	}
	if now.Spec.ClusterIP != "" && len(now.Spec.ClusterIPs) == 0 {
		now.Spec.ClusterIPs = []string{now.Spec.ClusterIP} // one that was stored without
	}
	if errs := all.Complete(now, was); len(errs) > 0 {
		return invalid(now, errs...)
	}
	if err := o.takeAddresses(ctx, now, specOf(was)); err != nil {
		return err
	}
	return o.takePorts(ctx, now, specOf(was))
}

// Release implements registry.Allocator.
func (a *Allocator) Release(ctx context.Context, last *wire.Object) {
	h := heldBy(last)
	for _, ip := range h.addresses {
		a.releaseAddress(ctx, ip, last.Key())
	}
	a.ports.Free(ctx, h.ports)
}

// read reads a Service.
func read(u *unstructured.Unstructured) (*corev1.Service, error) {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace()}}
	spec, is := u.Object["spec"].(map[string]any)
	if !is {
		return s, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &s.Spec); err != nil {
		return nil, wire.Internal(fmt.Errorf("read a Service: %w", err))
	}
	return s, nil
}

// write puts into an object what is allocated.
func write(u *unstructured.Unstructured, s *corev1.Service) {
	spec, is := u.Object["spec"].(map[string]any)
	if !is {
		spec = map[string]any{}
		u.Object["spec"] = spec
	}
	put(spec, "clusterIP", s.Spec.ClusterIP)
	putAll(spec, "clusterIPs", s.Spec.ClusterIPs)
	putAll(spec, "ipFamilies", s.Spec.IPFamilies)
	if policy := s.Spec.IPFamilyPolicy; policy != nil {
		spec["ipFamilyPolicy"] = string(*policy)
	}
	if port := s.Spec.HealthCheckNodePort; port != 0 {
		spec["healthCheckNodePort"] = int64(port)
	}
	ports, _ := spec["ports"].([]any)
	for i := range min(len(ports), len(s.Spec.Ports)) {
		if one, is := ports[i].(map[string]any); is && s.Spec.Ports[i].NodePort != 0 {
			one["nodePort"] = int64(s.Spec.Ports[i].NodePort)
		}
	}
}

func put(spec map[string]any, name, value string) {
	if value != "" {
		spec[name] = value
	}
}

func putAll[T ~string](spec map[string]any, name string, values []T) {
	if len(values) == 0 {
		return // what was there stays
	}
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = string(value)
	}
	spec[name] = all
}

// invalid is 422 for a Service.
func invalid(s *corev1.Service, errs ...*field.Error) error {
	return wire.Invalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), s.Name, errs)
}
