// Package resource has the kinds of the group resource.k8s.io: claims of devices, and what they are
// allocated from. Nothing allocates here.
//
// In the rules a request is one item of a claim, which asks for devices of a class; a result is a device that
// is allocated for a request; a slice lists devices of a driver, with their attributes and capacities. The
// texts are upstream's (pkg/apis/resource/validation of Kubernetes 1.37). CEL expressions are bounded in
// length, and parsed; types and cost are not checked. The label that a namespace needs for requests with
// adminAccess is not looked at.
package resource

import (
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/wire"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass", Plural: "deviceclasses", Cluster: true,
			ReturnDeleted: true,
			Generation:    kinds.GenerationOfSpec,
		}, gokind.Rules[*resourcev1.DeviceClass]{Object: validateClass}),
		gokind.Of(gokind.Row{
			Group: "resource.k8s.io", Version: "v1", Kind: "DeviceTaintRule", Cluster: true, Status: true, NeedsVersion: true,
			Defaults: defaultTaintRule,
			Complete: completeTaintRule, Generation: kinds.GenerationOfSpec, StatusKeeps: gokind.KeptMetadata(),
			Table: taintRuleTable(),
		}, gokind.Rules[*resourcev1.DeviceTaintRule]{Object: validateTaintRule}),
		gokind.Of(gokind.Row{
			Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaim", Status: true, ReturnDeleted: true,
			Defaults: defaultClaim,
			Complete: completeClaim, StatusKeeps: gokind.KeptMetadata(), Table: claimTable(),
		}, gokind.Rules[*resourcev1.ResourceClaim]{Create: validateNewClaim, Update: validateClaimUpdate}),
		gokind.Of(gokind.Row{
			Group: "resource.k8s.io", Version: "v1", Kind: "ResourceClaimTemplate", ReturnDeleted: true,
			Defaults: defaultTemplate,
			Complete: completeTemplate,
		}, gokind.Rules[*resourcev1.ResourceClaimTemplate]{Create: validateNewTemplate, Update: validateTemplateUpdate}),
		gokind.Of(gokind.Row{
			Group: "resource.k8s.io", Version: "v1", Kind: "ResourceSlice", Cluster: true, ReturnDeleted: true,
			Defaults: defaultSlice,
			Fields:   []wire.FieldPath{gokind.At("spec.driver"), gokind.At("spec.nodeName"), gokind.At("spec.pool.name")},
			Complete: completeSlice, Generation: kinds.GenerationOfSpec, Table: sliceTable(),
		}, gokind.Rules[*resourcev1.ResourceSlice]{
			Create: validateNewSlice, Update: validateSliceUpdate, Warn: warnResourceSlice,
		}),
	}
}
