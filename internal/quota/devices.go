package quota

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Classes knows the DeviceClasses, and the pods that claims are made for.
type Classes interface {
	// Extended returns the extended resource that a DeviceClass stands for; "" for none.
	Extended(class string) corev1.ResourceName
	// IsExtended reports whether a DeviceClass stands for an extended resource.
	IsExtended(name corev1.ResourceName) bool
	// Charged returns what the pod uses for which a claim was made because it requests extended resources, so that the
	// claim counts only for more than that; nil if there is none.
	Charged(claim *resourcev1.ResourceClaim) corev1.ResourceList
}

// mayBeOfDevices reports whether a name in a quota limits ResourceClaims, if there are DeviceClasses for it.
func mayBeOfDevices(name corev1.ResourceName) bool {
	return strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass) || isExtendedInQuotas(name)
}

func deviceClaimCount() corev1.ResourceName {
	return countOf(kinds.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"})
}

// deviceClaims are ResourceClaims, which are measured by the devices of a class that they request.
type deviceClaims struct{ classes Classes }

func (d deviceClaims) matches(name corev1.ResourceName) bool {
	if name == deviceClaimCount() || strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass) {
		return true
	}
	if d.classes == nil {
		return false
	}
	if class, is := strings.CutPrefix(string(name), corev1.ResourceImplicitExtendedClaimsPerClass); is &&
		d.classes.Extended(class) != "" {
		return true
	}
	return isExtendedInQuotas(name) && d.classes.IsExtended(name[len(corev1.DefaultResourceRequestsPrefix):])
}

func (d deviceClaims) item(decode func(any) error) (Item, error) {
	c := deviceClaim{classes: d.classes}
	err := decode(&c.ResourceClaim)
	return c, err
}

// deviceClaim is a ResourceClaim.
type deviceClaim struct {
	resourcev1.ResourceClaim

	classes Classes
}

// Missing implements Item.
func (deviceClaim) Missing([]corev1.ResourceName) error { return nil }

// InScope implements Item.
func (deviceClaim) InScope(corev1.ScopedResourceSelectorRequirement) (bool, error) { return false, nil }

// Usage implements Item. Of alternatives the most counts, for each class.
func (c deviceClaim) Usage() corev1.ResourceList {
	used := corev1.ResourceList{deviceClaimCount(): number(1)}
	for _, r := range c.Spec.Devices.Requests {
		switch {
		case len(r.FirstAvailable) > 0:
			most := map[string]int64{}
			for _, sub := range r.FirstAvailable {
				if n := devices(sub.AllocationMode, sub.Count); n > 0 {
					most[sub.DeviceClassName] = max(most[sub.DeviceClassName], n)
				}
			}
			for class, n := range most {
				Add(used, corev1.ResourceList{ofDevices(class): number(n)})
			}
		case r.Exactly != nil:
			n := devices(r.Exactly.AllocationMode, r.Exactly.Count)
			Add(used, corev1.ResourceList{ofDevices(r.Exactly.DeviceClassName): number(n)})
		}
	}
	if c.classes != nil {
		c.extend(used)
	}
	return used
}

func ofDevices(class string) corev1.ResourceName {
	return corev1.ResourceName(class + corev1.ResourceClaimsPerClass)
}

// devices is how many devices a request may get. Modes that are unknown do not count.
func devices(mode resourcev1.DeviceAllocationMode, count int64) int64 {
	switch mode {
	case resourcev1.DeviceAllocationModeExactCount:
		return count
	case resourcev1.DeviceAllocationModeAll:
		return resourcev1.AllocationResultsMaxSize
	}
	return 0
}

// extend adds the names that devices have as extended resources, but for what the pod of the claim uses already.
func (c deviceClaim) extend(used corev1.ResourceList) {
	extended := corev1.ResourceList{}
	for name, q := range used {
		class, is := strings.CutSuffix(string(name), corev1.ResourceClaimsPerClass)
		if !is || class == "" {
			continue
		}
		extended[corev1.ResourceName(corev1.ResourceImplicitExtendedClaimsPerClass+class)] = q
		if name := c.classes.Extended(class); name != "" {
			extended[corev1.DefaultResourceRequestsPrefix+name] = q
		}
	}
	maps.Copy(used, Rise(extended, c.classes.Charged(&c.ResourceClaim)))
}

// Lookup reads objects from memory.
type Lookup func(gr kinds.GroupResource, key wire.Key) *wire.Object

// DeviceClasses implements Classes. It is a registry.Follower of DeviceClasses and ResourceClaims, and safe for
// concurrent use.
type DeviceClasses struct {
	find Lookup

	// mu guards what follows.
	mu      sync.RWMutex
	classes map[string]*resourcev1.DeviceClass
	names   map[corev1.ResourceName]int // of how many classes
	owned   map[owner][]made
	claims  map[wire.Key]owner // those in owned
}

// owner is a pod for which claims were made because it requests extended resources.
type owner struct{ namespace, uid string }

type made struct {
	name string
	at   metav1.Time
}

var _ Classes = (*DeviceClasses)(nil)

// NewDeviceClasses returns a DeviceClasses without any. Find finds pods.
func NewDeviceClasses(find Lookup) *DeviceClasses {
	return &DeviceClasses{
		find: find, classes: map[string]*resourcev1.DeviceClass{}, names: map[corev1.ResourceName]int{},
		owned: map[owner][]made{}, claims: map[wire.Key]owner{},
	}
}

//nolint:gochecknoglobals // names
var (
	deviceClasses  = kinds.GroupResource{Group: resourcev1.GroupName, Resource: "deviceclasses"}
	resourceClaims = kinds.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
)

// Follows implements registry.Follower.
func (d *DeviceClasses) Follows() []kinds.GroupResource {
	return []kinds.GroupResource{deviceClasses, resourceClaims}
}

// Replace implements registry.Follower.
func (d *DeviceClasses) Replace(gr kinds.GroupResource, objects []*wire.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if gr == deviceClasses {
		clear(d.classes)
		clear(d.names)
	} else {
		clear(d.owned)
		clear(d.claims)
	}
	for _, o := range objects {
		d.changeLocked(gr, o, false)
	}
}

// Change implements registry.Follower.
func (d *DeviceClasses) Change(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changeLocked(gr, o, deleted)
}

func (d *DeviceClasses) changeLocked(gr kinds.GroupResource, o *wire.Object, deleted bool) {
	if gr == deviceClasses {
		d.classLocked(o, deleted)
		return
	}
	key := o.Key()
	if was, has := d.claims[key]; has {
		delete(d.claims, key)
		d.owned[was] = slices.DeleteFunc(d.owned[was], func(m made) bool { return m.name == key.Name })
		if len(d.owned[was]) == 0 {
			delete(d.owned, was)
		}
	}
	if deleted || !o.Owned() {
		return
	}
	var claim resourcev1.ResourceClaim
	if decodeOf(o)(&claim) != nil {
		return
	}
	if ref := podOf(&claim); ref != nil {
		of := owner{key.Namespace, string(ref.UID)}
		d.claims[key] = of
		d.owned[of] = append(d.owned[of], made{key.Name, claim.CreationTimestamp})
	}
}

func (d *DeviceClasses) classLocked(o *wire.Object, deleted bool) {
	name := o.Key().Name
	count := func(class *resourcev1.DeviceClass, by int) {
		if class == nil {
			return
		}
		for _, name := range []corev1.ResourceName{
			extendedOf(class), corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + class.Name),
		} {
			if d.names[name] += by; d.names[name] == 0 {
				delete(d.names, name)
			}
		}
	}
	count(d.classes[name], -1)
	delete(d.classes, name)
	class := &resourcev1.DeviceClass{}
	if deleted || decodeOf(o)(class) != nil {
		return
	}
	d.classes[name] = class
	count(class, 1)
}

func extendedOf(class *resourcev1.DeviceClass) corev1.ResourceName {
	if class == nil || class.Spec.ExtendedResourceName == nil {
		return ""
	}
	return corev1.ResourceName(*class.Spec.ExtendedResourceName)
}

// Extended implements Classes.
func (d *DeviceClasses) Extended(class string) corev1.ResourceName {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return extendedOf(d.classes[class])
}

// IsExtended implements Classes.
func (d *DeviceClasses) IsExtended(name corev1.ResourceName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return name != "" && d.names[name] > 0
}

// podOf returns the reference to the pod for whose extended resources a claim was made; nil: it is another claim.
func podOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(claim)
	if ref == nil || ref.Kind != "Pod" || ref.APIVersion != "v1" {
		return nil
	}
	return ref
}

// Charged implements Classes. The pod knows its claim, or this is the first one that was made for it.
func (d *DeviceClasses) Charged(claim *resourcev1.ResourceClaim) corev1.ResourceList {
	ref := podOf(claim)
	if ref == nil || d.find == nil {
		return nil
	}
	o := d.find(kinds.GroupResource{Resource: "pods"}, wire.Key{Namespace: claim.Namespace, Name: ref.Name})
	if o == nil || o.UID() != ref.UID {
		return nil
	}
	var p pod
	if decodeOf(o)(&p.Pod) != nil {
		return nil
	}
	switch status := p.Status.ExtendedResourceClaimStatus; {
	case status != nil && status.ResourceClaimName != claim.Name:
		return nil
	case status == nil && !d.isFirst(claim, string(ref.UID)):
		return nil
	}
	return p.Usage()
}

func (d *DeviceClasses) isFirst(claim *resourcev1.ResourceClaim, uid string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return !slices.ContainsFunc(d.owned[owner{claim.Namespace, uid}], func(m made) bool {
		return m.at.Before(&claim.CreationTimestamp) || m.at.Equal(&claim.CreationTimestamp) && m.name < claim.Name
	})
}
