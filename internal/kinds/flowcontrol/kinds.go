// Package flowcontrol has the kinds of the group flowcontrol.apiserver.k8s.io. They are stored and checked; which
// requests wait, the fair places of internal/apiserver/limit decide (docs/decisions/0014).
package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
)

// Kinds returns the kinds of the group.
func Kinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Group: flowcontrolv1.GroupName, Version: "v1", Kind: "FlowSchema", Cluster: true, Status: true,
			Defaults: defaultFlowSchema, Generation: kinds.GenerationOfSpec, StatusKeeps: gokind.KeptMetadata(),
			Table: flowSchemaTable(),
		}, gokind.Rules[*flowcontrolv1.FlowSchema]{
			Object: validateFlowSchema, Status: validateFlowSchemaStatus, Warn: warnFlowSchema,
		}),
		gokind.Of(gokind.Row{
			Group: flowcontrolv1.GroupName, Version: "v1", Kind: "PriorityLevelConfiguration", Cluster: true, Status: true,
			Defaults: defaultPriorityLevel, Generation: kinds.GenerationOfSpec, StatusKeeps: gokind.KeptMetadata(),
			Table: priorityLevelTable(),
		}, gokind.Rules[*flowcontrolv1.PriorityLevelConfiguration]{
			Object: validatePriorityLevel, Status: validatePriorityLevelStatus, Warn: warnPriorityLevel,
		}),
	}
}

// noEffect is the warning about writes that a client may expect something of.
const noEffect = "this server gives its places to users fairly, whatever the flowcontrol objects say: see docs/kinds.md"

func warnFlowSchema(o, old *flowcontrolv1.FlowSchema) []string {
	if old != nil && equality.Semantic.DeepEqual(o.Spec, old.Spec) {
		return nil
	}
	return []string{noEffect}
}

func warnPriorityLevel(o, old *flowcontrolv1.PriorityLevelConfiguration) []string {
	if old != nil && equality.Semantic.DeepEqual(o.Spec, old.Spec) {
		return nil
	}
	return []string{noEffect}
}
