// Package addresses refuses writes of Services for which kube-apiserver would allocate addresses, on
// a store that both share.
//
// kube-apiserver gives a Service its cluster IPs and node ports from allocations that it keeps beside
// the objects: IPAddresses, and bitmaps under /registry/ranges. This server has no allocator, so a
// Service that it stored without addresses, or with ones that nobody has reserved, would be half of
// one. A [Plugin] lets those through that need no address (headless, ExternalName), gives headless
// ones the IP families that upstream gives them, and refuses the others with 422 and what to do.
//
// Deletions are not refused. kube-apiserver releases addresses after the deletion and does not take
// it back if that fails: its repair loops find what is not in use any more
// (pkg/registry/core/service/ipallocator/controller, portallocator/controller).
package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster reads objects from memory.
type Cluster interface {
	// Find returns an object in the version in which it is stored; nil when there is none.
	Find(gr kinds.GroupResource, key wire.Key) *wire.Object
}

// Plugin is an admission plugin. It comes last, since upstream allocates after all plugins have
// changed the object.
type Plugin struct{ cluster Cluster }

var _ admission.Plugin = Plugin{}

// New returns a plugin.
func New(cluster Cluster) Plugin { return Plugin{cluster: cluster} }

// Handles implements admission.Plugin.
func (Plugin) Handles(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	return r.Group == "" && r.Plural == "services" && subresource == "" && (op == upstream.Create || op == upstream.Update)
}

// write is the write of a Service.
type write struct {
	now    corev1.Service
	was    *corev1.Service // nil: it is created
	object *unstructured.Unstructured
}

// read returns the write of a Service; nil if it is another one.
func read(a upstream.Attributes) (*write, error) {
	if a.GetResource().Group != "" || a.GetResource().Resource != "services" || a.GetSubresource() != "" {
		return nil, nil //nolint:nilnil // there is none
	}
	u, is := a.GetObject().(*unstructured.Unstructured)
	if !is {
		return nil, nil //nolint:nilnil // a deletion
	}
	w := &write{object: u}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &w.now); err != nil {
		return nil, fmt.Errorf("read a Service: %w", err)
	}
	if old, is := a.GetOldObject().(*unstructured.Unstructured); is && a.GetOperation() == upstream.Update {
		w.was = &corev1.Service{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(old.Object, w.was); err != nil {
			return nil, fmt.Errorf("read a Service as it was: %w", err)
		}
	}
	return w, nil
}

// spec returns what an update replaces; nil for a creation.
func (w *write) spec() *corev1.ServiceSpec {
	if w.was == nil {
		return nil
	}
	return &w.was.Spec
}

// Waits implements admission.Plugin: a Service conflicts with few.
func (Plugin) Waits(*kinds.Resource, string, upstream.Operation) bool { return true }

// Admit implements admission.Plugin: it gives a headless Service its IP families, where they follow
// from what is known.
func (p Plugin) Admit(_ context.Context, a upstream.Attributes, redo func() error) error {
	w, err := read(a)
	if err != nil || w == nil || !headless(&w.now.Spec) {
		return err
	}
	was := w.spec()
	if settled(&w.now.Spec, was) || len(p.unfit(&w.now.Spec, was)) > 0 { // Validate refuses it
		return nil
	}
	policy, families := p.complete(&w.now.Spec, was)
	if len(families) == 0 || w.now.Spec.IPFamilyPolicy != nil && len(families) == len(w.now.Spec.IPFamilies) {
		return nil
	}
	spec, is := w.object.Object["spec"].(map[string]any)
	if !is {
		return nil
	}
	named := make([]any, len(families))
	for i, family := range families {
		named[i] = string(family)
	}
	spec["ipFamilyPolicy"], spec["ipFamilies"] = string(policy), named
	return redo()
}

// complete returns the policy and the families that upstream gives a headless Service
// (pkg/registry/core/service/storage/alloc.go initIPFamilyFields); no families if they depend on
// what the cluster has, and that is not known.
func (p Plugin) complete(spec, was *corev1.ServiceSpec) (corev1.IPFamilyPolicy, []corev1.IPFamily) {
	policy := policyOf(spec, was)
	bare := len(spec.Selector) == 0
	of := p.families()
	families := spec.IPFamilies
	if len(families) == 0 {
		if len(of) == 0 {
			return policy, nil
		}
		families = of[:1:1]
	}
	switch {
	case releases(spec, was):
		families = families[:1:1]
	case policy == corev1.IPFamilyPolicySingleStack || len(families) > 1:
	case bare: // whatever the cluster has
		families = append(families[:1:1], other(families[0]))
	case len(of) == 0:
		return policy, nil
	case len(of) > 1:
		families = append(families[:1:1], other(families[0]))
	}
	return policy, families
}

func other(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// families returns the IP families of the cluster's Services, the default first: those of the
// ServiceCIDR "kubernetes", which kube-apiserver 1.33 and later makes of --service-cluster-ip-range.
// There are none without it.
func (p Plugin) families() []corev1.IPFamily {
	o := p.cluster.Find(kinds.GroupResource{Group: networkingv1.GroupName, Resource: "servicecidrs"},
		wire.Key{Name: "kubernetes"})
	if o == nil {
		return nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(o.JSON()); err != nil {
		return nil // it is stored: others report it
	}
	ranges, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "cidrs") // a wrong type is no range
	var all []corev1.IPFamily
	for _, text := range ranges {
		of, err := netip.ParsePrefix(text)
		if err != nil {
			return nil
		}
		family := corev1.IPv4Protocol
		if of.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		all = append(all, family)
	}
	return all
}

// Validate implements admission.Plugin. Errors: 422.
func (p Plugin) Validate(_ context.Context, a upstream.Attributes) error {
	w, err := read(a)
	if err != nil || w == nil {
		return err
	}
	var errs field.ErrorList
	if was := w.spec(); was == nil {
		errs = p.lacking(&w.now.Spec)
	} else {
		errs = p.changed(&w.now.Spec, was)
	}
	if len(errs) == 0 {
		return nil
	}
	return wire.Invalid(a.GetKind().GroupKind(), w.now.Name, errs)
}

// advice ends each refusal.
const advice = "this server allocates no addresses for Services on an etcd that kube-apiserver may share " +
	"(--etcd-servers): send this write to kube-apiserver"

// unknownFamilies begins each refusal for want of a ServiceCIDR.
const unknownFamilies = "the IP families of this cluster are not known here, since there is no ServiceCIDR \"kubernetes\": "

// lacking returns why a new Service cannot be stored; nothing if it needs no address.
func (p Plugin) lacking(spec *corev1.ServiceSpec) field.ErrorList {
	at := field.NewPath("spec")
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	if !headless(spec) {
		return field.ErrorList{field.Forbidden(at.Child("clusterIP"), advice+", or make it headless with clusterIP: None")}
	}
	if errs := p.unfit(spec, nil); len(errs) > 0 {
		return errs
	}
	if spec.IPFamilyPolicy == nil || len(spec.IPFamilies) == 0 {
		return field.ErrorList{field.Required(at.Child("ipFamilies"),
			unknownFamilies+"set ipFamilyPolicy and ipFamilies, or send this write to kube-apiserver")}
	}
	return nil
}

// changed returns why an update cannot be stored; nothing if kube-apiserver would allocate nothing and
// release nothing.
func (p Plugin) changed(now, was *corev1.ServiceSpec) field.ErrorList {
	switch why := moved(now, was); {
	case why != nil:
		return field.ErrorList{why}
	case headless(now) && !headless(was):
		return p.lacking(now)
	}
	return p.unfit(now, was)
}

// moved returns which address or port an update would allocate or release; nil if there is none.
func moved(now, was *corev1.ServiceSpec) *field.Error {
	at := field.NewPath("spec")
	switch {
	case !reflect.DeepEqual(addressesOf(now), addressesOf(was)):
		return field.Forbidden(at.Child("clusterIPs"), "the cluster IPs of a Service cannot be changed here: "+advice)
	case !reflect.DeepEqual(portsOf(now), portsOf(was)):
		return field.Forbidden(at.Child("ports"), "the node ports of a Service cannot be changed here: "+advice)
	case now.HealthCheckNodePort != was.HealthCheckNodePort:
		return field.Forbidden(at.Child("healthCheckNodePort"), "a node port cannot be changed here: "+advice)
	case addressed(now) && !addressed(was):
		return field.Forbidden(at.Child("type"), "the Service would need a cluster IP: "+advice)
	case missingPorts(now) > missingPorts(was):
		return field.Forbidden(at.Child("ports"), "the Service would need a node port: "+advice)
	case missingHealthPort(now) && !missingHealthPort(was):
		return field.Forbidden(at.Child("externalTrafficPolicy"), "the Service would need a node port: "+advice)
	case addressed(now) && (!reflect.DeepEqual(now.IPFamilies, was.IPFamilies) ||
		!reflect.DeepEqual(now.IPFamilyPolicy, was.IPFamilyPolicy)):
		return field.Forbidden(at.Child("ipFamilyPolicy"), "the IP families of a Service cannot be changed here: "+advice)
	}
	return nil
}

// headless reports whether a Service asks for no cluster IP.
func headless(spec *corev1.ServiceSpec) bool {
	if spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	return spec.ClusterIP == corev1.ClusterIPNone || len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// addressed reports whether a Service has cluster IPs, or would get them.
func addressed(spec *corev1.ServiceSpec) bool {
	return spec.Type != corev1.ServiceTypeExternalName && !headless(spec)
}

// addressesOf returns the cluster IPs of a Service.
func addressesOf(spec *corev1.ServiceSpec) []string {
	all := []string{}
	if !addressed(spec) {
		return all
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		return append(all, spec.ClusterIP)
	}
	return append(all, spec.ClusterIPs...)
}

// port is what kube-apiserver reserves for a port of a Service.
type port struct {
	protocol corev1.Protocol
	number   int32
}

// portsOf returns the node ports of a Service, whatever their order.
func portsOf(spec *corev1.ServiceSpec) map[port]int {
	all := map[port]int{}
	for _, p := range spec.Ports {
		if p.NodePort != 0 {
			all[port{p.Protocol, p.NodePort}]++
		}
	}
	return all
}

// missingPorts returns how many node ports kube-apiserver would allocate
// (pkg/registry/core/service/storage/alloc.go txnAllocNodePorts).
func missingPorts(spec *corev1.ServiceSpec) int {
	switch {
	case spec.Type == corev1.ServiceTypeNodePort:
	case spec.Type == corev1.ServiceTypeLoadBalancer &&
		(spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts):
	default:
		return 0
	}
	missing := 0
	for _, p := range spec.Ports {
		if p.NodePort == 0 {
			missing++
		}
	}
	return missing
}

// missingHealthPort reports whether kube-apiserver would allocate a port for health checks.
func missingHealthPort(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer &&
		spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && spec.HealthCheckNodePort == 0
}
