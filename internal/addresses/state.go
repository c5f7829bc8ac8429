package addresses

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

func servicesResource() kinds.GroupResource { return kinds.GroupResource{Resource: "services"} }

func addressesResource() kinds.GroupResource {
	return kinds.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
}

func rangesResource() kinds.GroupResource {
	return kinds.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"}
}

// state is what is stored of Services, IPAddresses and ServiceCIDRs: a registry.Follower. Services are decoded when
// somebody asks for them.
type state struct {
	configured []netip.Prefix // the ranges without a ServiceCIDR "kubernetes"
	named      Families       // the families, if the ranges were named; nil: those of the ServiceCIDR

	// mu guards what follows.
	mu        sync.Mutex
	changed   map[wire.Key]*wire.Object // Services to decode; nil: it is gone
	services  map[wire.Key]held
	addresses map[netip.Addr]int // how many Services have it
	ports     map[int]int        // the same
	objects   map[netip.Addr]*wire.Object
	cidrs     map[string]*wire.Object
	ranges    []cidr // of cidrs that are ready, the default ones first; nil: not computed
	known     []cidr // of all
	families  Families
	moved     bool // something has changed since the last pass of the repair
}

// held is what a Service has.
type held struct {
	uid       string
	addresses []netip.Addr
	ports     []int // each once, and health checks
}

func newState(configured []netip.Prefix, named bool) *state {
	var families Families
	for _, prefix := range configured {
		if named {
			families = append(families, familyOf(prefix.Addr()))
		}
	}
	return &state{
		configured: configured, named: families, changed: map[wire.Key]*wire.Object{}, services: map[wire.Key]held{}, moved: true,
		addresses: map[netip.Addr]int{}, ports: map[int]int{}, objects: map[netip.Addr]*wire.Object{},
		cidrs: map[string]*wire.Object{},
	}
}

// Follows implements registry.Follower.
func (s *state) Follows() []kinds.GroupResource {
	return []kinds.GroupResource{servicesResource(), addressesResource(), rangesResource()}
}

// Replace implements registry.Follower.
func (s *state) Replace(gr kinds.GroupResource, objects []*wire.Object) {
	s.mu.Lock()
	switch gr {
	case servicesResource():
		clear(s.changed)
		clear(s.services)
		clear(s.addresses)
		clear(s.ports)
	case addressesResource():
		clear(s.objects)
	default:
		clear(s.cidrs)
		s.ranges = nil
	}
	s.mu.Unlock()
	for _, o := range objects {
		s.Change(gr, o, false)
	}
}

// Change implements registry.Follower.
func (s *state) Change(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved = true
	switch gr {
	case servicesResource():
		if s.changed[o.Key()] = o; deleted {
			s.changed[o.Key()] = nil
		}
	case addressesResource():
		ip, err := netip.ParseAddr(o.Key().Name)
		if err != nil {
			return // the rules of the kind refuse such a name
		}
		if s.objects[ip] = o; deleted {
			delete(s.objects, ip)
		}
	default:
		s.ranges = nil
		if s.cidrs[o.Key().Name] = o; deleted {
			delete(s.cidrs, o.Key().Name)
		}
	}
}

// settleLocked decodes the Services that have changed.
func (s *state) settleLocked() {
	for key, o := range s.changed {
		before := s.services[key]
		delete(s.services, key)
		count(s.addresses, before.addresses, -1)
		count(s.ports, before.ports, -1)
		if o == nil {
			continue
		}
		h := heldBy(o)
		s.services[key] = h
		count(s.addresses, h.addresses, 1)
		count(s.ports, h.ports, 1)
	}
	clear(s.changed)
}

func count[T comparable](in map[T]int, all []T, by int) {
	for _, one := range all {
		if in[one] += by; in[one] <= 0 {
			delete(in, one)
		}
	}
}

// heldBy reads what a stored Service has; nothing of what cannot be read.
func heldBy(o *wire.Object) held {
	var service struct {
		Spec corev1.ServiceSpec `json:"spec"`
	}
	h := held{uid: string(o.UID())}
	if err := json.Unmarshal(o.JSON(), &service); err != nil {
		return h
	}
	h.addresses, h.ports = addressesOf(&service.Spec), portsOf(&service.Spec)
	return h
}

// addressesOf returns the cluster IPs of a Service.
func addressesOf(spec *corev1.ServiceSpec) []netip.Addr {
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	texts := spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{spec.ClusterIP}
	}
	var all []netip.Addr
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(all, ip) {
			all = append(all, ip)
		}
	}
	return all
}

// portsOf returns the node ports of a Service, each once, and that of its health checks.
func portsOf(spec *corev1.ServiceSpec) []int {
	var all []int
	add := func(port int32) {
		if port != 0 && !slices.Contains(all, int(port)) {
			all = append(all, int(port))
		}
	}
	if add(spec.HealthCheckNodePort); len(spec.Ports) > 64 { // a set
		seen := map[int32]bool{0: true, spec.HealthCheckNodePort: true}
		for _, p := range spec.Ports {
			if !seen[p.NodePort] {
				all, seen[p.NodePort] = append(all, int(p.NodePort)), true
			}
		}
		return all
	}
	for _, p := range spec.Ports {
		add(p.NodePort)
	}
	return all
}

// defaultName is the name of the ServiceCIDR of the configured ranges.
const defaultName = "kubernetes"

// rangesLocked reads the ServiceCIDRs.
func (s *state) rangesLocked() {
	if s.ranges != nil {
		return
	}
	s.ranges, s.known, s.families = []cidr{}, nil, nil
	names := slices.Sorted(maps.Keys(s.cidrs))
	if i := slices.Index(names, defaultName); i >= 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, defaultName)
	} else {
		s.addLocked(s.configured, true, true)
	}
	for _, name := range names {
		var o networkingv1.ServiceCIDR
		if json.Unmarshal(s.cidrs[name].JSON(), &o) != nil {
			continue
		}
		ready := o.DeletionTimestamp.IsZero()
		for _, c := range o.Status.Conditions {
			ready = ready && (c.Type != networkingv1.ServiceCIDRConditionReady || c.Status == metav1.ConditionTrue)
		}
		var all []netip.Prefix
		for _, text := range o.Spec.CIDRs {
			if prefix, err := netip.ParsePrefix(text); err == nil {
				all = append(all, prefix)
			}
		}
		s.addLocked(all, ready, name == defaultName)
	}
	switch {
	case s.named != nil:
		s.families = s.named
	case len(s.families) == 0:
		s.families = Families{corev1.IPv4Protocol}
	}
}

func (s *state) addLocked(prefixes []netip.Prefix, ready, standard bool) {
	for _, prefix := range prefixes {
		c, err := newCIDR(prefix)
		if family := familyOf(c.prefix.Addr()); standard && !slices.Contains(s.families, family) {
			s.families = append(s.families, family)
		}
		if err != nil {
			continue // as upstream: nothing is given out of it
		}
		s.known = append(s.known, c)
		if ready && !slices.ContainsFunc(s.ranges, func(r cidr) bool { return r.prefix == c.prefix }) {
			s.ranges = append(s.ranges, c)
		}
	}
}

// present returns the ranges that are ready, of one family, and the families of the cluster.
func (s *state) present(of corev1.IPFamily) (ranges []cidr, all Families) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rangesLocked()
	for _, c := range s.ranges {
		if familyOf(c.first) == of {
			ranges = append(ranges, c)
		}
	}
	return ranges, s.families
}

// taken reports whether an address is in use: there is an IPAddress, or a Service has it.
func (s *state) taken(ip netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
	return s.objects[ip] != nil || s.addresses[ip] > 0
}

// object returns the IPAddress of an address; nil: there is none.
func (s *state) object(ip netip.Addr) *wire.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[ip]
}
