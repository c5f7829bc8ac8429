package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func taintRuleTable() kinds.Table {
	taint := resourcev1.DeviceTaint{}
	return table.Of(func(o *resourcev1.DeviceTaintRule, r table.Meta) []any {
		t, since := o.Spec.Taint, any("")
		if t.TimeAdded != nil {
			since = kinds.Age(t.TimeAdded.Time)
		}
		return []any{r.Name, t.Key, t.Value, string(t.Effect), since, r.Age}
	}, table.Name(), table.Str("Key", table.Doc(taint, "key")), table.Str("Value", table.Doc(taint, "value")),
		table.Str("Effect", table.Doc(taint, "effect")), table.Str("TimeAdded", table.Doc(taint, "timeAdded")), table.Age())
}

func claimTable() kinds.Table {
	return table.Of(func(o *resourcev1.ResourceClaim, r table.Meta) []any { return []any{r.Name, claimState(o), r.Age} },
		table.Name(), table.Str("State", "A summary of the current state (allocated, pending, reserved, etc.)."), table.Age())
}

func sliceTable() kinds.Table {
	spec := resourcev1.ResourceSliceSpec{}
	return table.Of(func(o *resourcev1.ResourceSlice, r table.Meta) []any {
		return []any{r.Name, table.Deref(o.Spec.NodeName), o.Spec.Driver, o.Spec.Pool.Name, r.Age}
	}, table.Name(), table.Str("Node", table.Doc(spec, "nodeName")), table.Str("Driver", table.Doc(spec, "driver")),
		table.Str("Pool", table.Doc(resourcev1.ResourcePool{}, "name")), table.Age())
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
