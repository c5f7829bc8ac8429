package flowcontrol

import (
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func flowSchemaTable() kinds.Table {
	spec := flowcontrolv1.FlowSchemaSpec{}
	return table.Of(func(o *flowcontrolv1.FlowSchema, r table.Meta) []any {
		method := "<none>"
		if m := o.Spec.DistinguisherMethod; m != nil {
			method = string(m.Type)
		}
		missing := "?"
		for _, c := range o.Status.Conditions {
			if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
				missing = string(c.Status)
				break
			}
		}
		level := o.Spec.PriorityLevelConfiguration.Name
		return []any{r.Name, level, int64(o.Spec.MatchingPrecedence), method, r.Age, missing}
	},
		table.Name(), table.Str("PriorityLevel", table.Doc(flowcontrolv1.PriorityLevelConfigurationReference{}, "name")),
		table.Str("MatchingPrecedence", table.Doc(spec, "matchingPrecedence")),
		table.Str("DistinguisherMethod", table.Doc(spec, "distinguisherMethod")), table.Age(),
		table.Str("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"))
}

func priorityLevelTable() kinds.Table {
	queuing := flowcontrolv1.QueuingConfiguration{}
	return table.Of(func(o *flowcontrolv1.PriorityLevelConfiguration, r table.Meta) []any {
		var shares, queues, hand, length any = "<none>", "<none>", "<none>", "<none>"
		if l := o.Spec.Limited; l != nil {
			shares = int64(table.Deref(l.NominalConcurrencyShares))
			if q := l.LimitResponse.Queuing; q != nil {
				queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
			}
		}
		return []any{r.Name, string(o.Spec.Type), shares, queues, hand, length, r.Age}
	},
		table.Name(), table.Str("Type", table.Doc(flowcontrolv1.PriorityLevelConfigurationSpec{}, "type")),
		table.Str("NominalConcurrencyShares",
			table.Doc(flowcontrolv1.LimitedPriorityLevelConfiguration{}, "nominalConcurrencyShares")),
		table.Str("Queues", table.Doc(queuing, "queues")), table.Str("HandSize", table.Doc(queuing, "handSize")),
		table.Str("QueueLengthLimit", table.Doc(queuing, "queueLengthLimit")), table.Age())
}
