package builtin

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/devices"
	"github.com/gapless-io/gapless/internal/kinds/builtin/warnings"
	"github.com/gapless-io/gapless/internal/wire"
)

// deviceKinds are claims of devices, and what they are allocated from. Nothing allocates
// here.
func deviceKinds() []*kinds.Resource {
	const group = "resource.k8s.io"
	return []*kinds.Resource{
		kind(row{
			group: group, version: "v1", kind: "DeviceClass", plural: "deviceclasses", cluster: true, returnDeleted: true,
		}, rules[*resourcev1.DeviceClass]{object: devices.Class}),
		kind(row{
			group: group, version: "v1", kind: "DeviceTaintRule", cluster: true, status: true, needsVersion: true,
			defaults: defaults.TaintRule,
		}, rules[*resourcev1.DeviceTaintRule]{object: devices.TaintRule}),
		kind(row{
			group: group, version: "v1", kind: "ResourceClaim", status: true, returnDeleted: true, defaults: defaults.DeviceClaim,
		}, rules[*resourcev1.ResourceClaim]{create: devices.NewClaim, update: devices.ClaimUpdate}),
		kind(row{
			group: group, version: "v1", kind: "ResourceClaimTemplate", returnDeleted: true, defaults: defaults.DeviceTemplate,
		}, rules[*resourcev1.ResourceClaimTemplate]{create: devices.NewTemplate, update: devices.TemplateUpdate}),
		kind(row{
			group: group, version: "v1", kind: "ResourceSlice", cluster: true, returnDeleted: true, defaults: defaults.DeviceSlice,
			fields: []wire.FieldPath{at("spec.driver"), at("spec.nodeName"), at("spec.pool.name")},
		}, rules[*resourcev1.ResourceSlice]{create: devices.NewSlice, update: devices.SliceUpdate, warn: warnings.ResourceSlice}),
	}
}
