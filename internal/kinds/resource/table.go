package printers

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	resources "github.com/gapless-io/gapless/internal/kinds"
)

// devices has the printers of claims of devices, and of what they are allocated from.
// Classes and templates have the default one.
func devices(resource string) (Printer, bool) {
	switch resource {
	case "devicetaintrules.resource.k8s.io":
		taint := resourcev1.DeviceTaint{}
		return of(func(o *resourcev1.DeviceTaintRule, r row) []any {
			t, since := o.Spec.Taint, any("")
			if t.TimeAdded != nil {
				since = resources.Age(t.TimeAdded.Time)
			}
			return []any{r.name, t.Key, t.Value, string(t.Effect), since, r.age}
		}, name(), str("Key", doc(taint, "key")), str("Value", doc(taint, "value")), str("Effect", doc(taint, "effect")),
			str("TimeAdded", doc(taint, "timeAdded")), age()), true
	case "resourceclaims.resource.k8s.io":
		return of(func(o *resourcev1.ResourceClaim, r row) []any { return []any{r.name, claimState(o), r.age} },
			name(), str("State", "A summary of the current state (allocated, pending, reserved, etc.)."), age()), true
	case "resourceslices.resource.k8s.io":
		spec := resourcev1.ResourceSliceSpec{}
		return of(func(o *resourcev1.ResourceSlice, r row) []any {
			return []any{r.name, deref(o.Spec.NodeName), o.Spec.Driver, o.Spec.Pool.Name, r.age}
		}, name(), str("Node", doc(spec, "nodeName")), str("Driver", doc(spec, "driver")),
			str("Pool", doc(resourcev1.ResourcePool{}, "name")), age()), true
	}
	return Printer{}, false
}

// claimState returns the state of a claim as kubectl shows it.
func claimState(o *resourcev1.ResourceClaim) string {
	var states []string
	if o.DeletionTimestamp != nil {
		states = append(states, "deleted")
	}
	switch {
	case o.Status.Allocation != nil && len(o.Status.ReservedFor) > 0:
		states = append(states, "allocated", "reserved")
	case o.Status.Allocation != nil:
		states = append(states, "allocated")
	case o.DeletionTimestamp == nil:
		states = append(states, "pending")
	}
	return strings.Join(states, ",")
}
