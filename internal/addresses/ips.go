package addresses

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// manager is who manages the fields of IPAddresses, and controller what their label says who does, as upstream.
const (
	manager    = "kube-apiserver"
	controller = "ipallocator.k8s.io"
)

// Upstream's texts (ipallocator).
var (
	errFull       = errors.New("range is full")
	errTaken      = errors.New("provided IP is already allocated")
	errNoRange    = errors.New("the provided network does not match the current range")
	errPortsTaken = errors.New("provided port is already allocated")
)

// operation is what one write takes, and gives back.
type operation struct {
	allocator *Allocator
	key       wire.Key
	dryRun    bool

	taken []reserved   // IPAddresses
	freed []netip.Addr // when it is written
	// ports are those that were taken, freedPorts those to give back when it is written.
	ports, freedPorts []int
}

// reserved is an IPAddress that was created.
type reserved struct {
	ip  netip.Addr
	uid types.UID
}

// end implements what registry.Allocator promises: after an unknown outcome everything stays for the repair.
func (o *operation) end(ctx context.Context, became admission.Outcome) {
	a := o.allocator
	for _, r := range o.taken {
		a.flight.end(r.ip)
	}
	switch {
	case o.dryRun:
	case became == admission.Refused:
		for _, r := range o.taken {
			a.deleteAddress(ctx, r.ip, r.uid)
		}
		a.ports.Undo(ctx, o.ports)
	case became == admission.Stored:
		for _, ip := range o.freed {
			a.releaseAddress(ctx, ip, o.key)
		}
		a.ports.Done(o.ports)
		a.ports.Free(ctx, o.freedPorts)
	default:
		a.ports.Doubt(o.ports)
	}
}

// takeAddresses takes and gives back cluster IPs, as the change of a Service from was, which is nil for a new one, needs
// it (upstream's allocClusterIPs and updateClusterIPs).
func (o *operation) takeAddresses(ctx context.Context, now *corev1.Service, was *corev1.ServiceSpec) error {
	spec := &now.Spec
	external := spec.Type == corev1.ServiceTypeExternalName
	switch {
	case was == nil || was.Type == corev1.ServiceTypeExternalName:
		if external || headless(spec) {
			return nil
		}
		return o.takeAll(ctx, now)
	case headless(was):
		return nil
	case external:
		o.freed = append(o.freed, addressesOf(was)...)
		return nil
	case settled(spec, was):
		return nil
	case len(was.ClusterIPs) == 0: // it was stored before there were allocations
		return o.heal(ctx, now)
	case len(was.IPFamilies) == 1 && len(spec.IPFamilies) == 2:
		if len(spec.ClusterIPs) < 2 {
			spec.ClusterIPs = append(slices.Clip(spec.ClusterIPs), "")
		}
		return o.take(ctx, now, 1)
	case len(was.IPFamilies) == 2 && len(spec.IPFamilies) == 1 && len(was.ClusterIPs) == 2:
		if ip, err := netip.ParseAddr(was.ClusterIPs[1]); err == nil {
			o.freed = append(o.freed, ip)
		}
	}
	return nil
}

// heal gives a Service without an address one. If there is none left it stays as it was, unless the client wants one.
func (o *operation) heal(ctx context.Context, now *corev1.Service) error {
	if headless(&now.Spec) {
		return nil
	}
	wanted := len(now.Spec.ClusterIPs) > 0
	err := o.takeAll(ctx, now)
	if err != nil && !wanted && context.Cause(ctx) == nil {
		o.allocator.logger.LogAttrs(ctx, slog.LevelWarn, "a Service from before addresses were allocated gets none",
			slog.String("service", o.key.String()), slog.Any("err", err))
		now.Spec.ClusterIP, now.Spec.ClusterIPs = "", nil
		return nil
	}
	return err
}

// takeAll takes an address of each family.
func (o *operation) takeAll(ctx context.Context, now *corev1.Service) error {
	spec := &now.Spec
	spec.ClusterIPs = slices.Clone(spec.ClusterIPs)
	for i := range spec.IPFamilies {
		if i >= len(spec.ClusterIPs) {
			spec.ClusterIPs = append(spec.ClusterIPs, "")
		}
		if err := o.take(ctx, now, i); err != nil {
			return err
		}
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return nil
}

// take takes the address with an index: the one that is there, or any.
func (o *operation) take(ctx context.Context, now *corev1.Service, i int) error {
	spec := &now.Spec
	wanted, shown := spec.ClusterIPs[i], slices.Clone(spec.ClusterIPs)
	ip, err := o.choose(ctx, wanted, spec.IPFamilies[i])
	if err == nil {
		spec.ClusterIPs[i] = ip.String()
		if wanted != "" {
			spec.ClusterIPs[i] = wanted
		}
		return nil
	}
	if status, is := errors.AsType[*wire.StatusError](err); context.Cause(ctx) != nil || is && mayPass(status) {
		return err // upstream says 422, and a client would not try again
	}
	text := fmt.Sprintf("failed to allocate IP: %v", err)
	switch {
	case wanted != "":
		text = fmt.Sprintf("failed to allocate IP %s: %v", wanted, err)
	case errors.Is(err, errFull):
		return wire.Internal(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", now.Name, err))
	}
	return invalid(now, field.Invalid(field.NewPath("spec", "clusterIPs"), shown, text))
}

// mayPass reports whether a client tries a write again that has failed in this way.
func mayPass(e *wire.StatusError) bool {
	return e.ErrStatus.Code >= http.StatusInternalServerError || e.ErrStatus.Code == http.StatusTooManyRequests
}

// choose takes an address, any of a family if wanted is "". Errors: errFull, errTaken, errNoRange, those of the creation.
func (o *operation) choose(ctx context.Context, wanted string, family corev1.IPFamily) (netip.Addr, error) {
	a := o.allocator
	ranges, _ := a.present(family)
	if wanted != "" {
		ip, err := netip.ParseAddr(wanted)
		if err != nil {
			return ip, err
		}
		if !slices.ContainsFunc(ranges, func(c cidr) bool { return c.has(ip) }) {
			if o.dryRun && len(ranges) > 0 {
				return ip, fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %s", ip,
					ranges[0].prefix)
			}
			return ip, errNoRange
		}
		if o.dryRun {
			return ip, nil
		}
		return ip, o.reserve(ctx, ip)
	}
	kept := a.First() // also while there is no Service kubernetes: kube-apiserver may come that makes it
	for _, c := range ranges {
		if o.dryRun {
			return c.prefix.Addr(), nil // as upstream: any, and one that nobody gets
		}
		for ip := range c.free(func(ip netip.Addr) bool { return ip == kept || a.taken(ip) }) {
			err := o.reserve(ctx, ip)
			if errors.Is(err, errTaken) {
				continue // by somebody who was faster
			}
			return ip, err
		}
	}
	return netip.Addr{}, errFull
}

// reserve creates the IPAddress of an address. Errors: errTaken, those of the creation.
func (o *operation) reserve(ctx context.Context, ip netip.Addr) error {
	a := o.allocator
	a.flight.begin(ip)
	uid, err := a.createAddress(ctx, ip, o.key)
	if err != nil {
		a.flight.end(ip)
		return err
	}
	o.taken = append(o.taken, reserved{ip: ip, uid: uid})
	return nil
}

// createAddress creates the IPAddress of a Service. Errors: errTaken, those of a creation.
func (a *Allocator) createAddress(ctx context.Context, ip netip.Addr, of wire.Key) (types.UID, error) {
	body, err := json.Marshal(&networkingv1.IPAddress{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "IPAddress"},
		ObjectMeta: metav1.ObjectMeta{Name: ip.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(ip)), networkingv1.LabelManagedBy: controller,
		}},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: of.Namespace, Name: of.Name},
		},
	})
	if err != nil {
		return "", wire.Internal(err)
	}
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	lasting, cancel := outlast(ctx)
	defer cancel()
	made, err := a.verbs.Create(lasting, a.target(""), body, metav1.CreateOptions{FieldManager: manager})
	if status, is := errors.AsType[*wire.StatusError](err); is && status.ErrStatus.Reason == metav1.StatusReasonAlreadyExists {
		return "", errTaken
	}
	if err != nil {
		return "", err
	}
	return made.Object.UID(), nil
}

// outlast returns the context of a write that takes something: a client that leaves does not end it, so that what became
// of it is known, and is given back. It ends when upstream would end the request.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), Grace)
}

func (a *Allocator) target(name string) kinds.Target {
	resource, _ := a.live.Load().Storage(addressesResource())
	return kinds.Target{Resource: resource, Name: name}
}

// releaseAddress deletes the IPAddress of a Service, if it is that Service's.
func (a *Allocator) releaseAddress(ctx context.Context, ip netip.Addr, of wire.Key) {
	o := a.object(ip)
	if o == nil || parentOf(o) != of {
		return // another replica's that is not seen yet is found by the repair
	}
	a.deleteAddress(ctx, ip, o.UID())
}

// deleteAddress deletes an IPAddress, but no other one that has the name by now. The repair finds what it does not.
func (a *Allocator) deleteAddress(ctx context.Context, ip netip.Addr, uid types.UID) {
	_, err := a.verbs.Delete(ctx, a.target(ip.String()), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	status, is := errors.AsType[*wire.StatusError](err)
	if err == nil || is && (status.ErrStatus.Code == http.StatusNotFound || status.ErrStatus.Code == http.StatusConflict) {
		return
	}
	a.logger.LogAttrs(ctx, slog.LevelWarn, "a cluster IP was not released; it will be later", slog.String("ip", ip.String()),
		slog.Any("err", err))
}

// parentOf returns the Service of an IPAddress; no key if it is of something else.
func parentOf(o *wire.Object) wire.Key {
	var address networkingv1.IPAddress
	if err := json.Unmarshal(o.JSON(), &address); err != nil || address.Spec.ParentRef == nil {
		return wire.Key{}
	}
	ref := address.Spec.ParentRef
	if ref.Group != "" || ref.Resource != "services" {
		return wire.Key{}
	}
	return wire.Key{Namespace: ref.Namespace, Name: ref.Name}
}

// flight are the addresses of writes in progress.
type flight struct {
	mu  sync.Mutex
	ips map[netip.Addr]int
}

func (f *flight) begin(ip netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ips == nil {
		f.ips = map[netip.Addr]int{}
	}
	f.ips[ip]++
}

func (f *flight) end(ip netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ips[ip]--; f.ips[ip] <= 0 {
		delete(f.ips, ip)
	}
}

func (f *flight) has(ip netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ips[ip] > 0
}
