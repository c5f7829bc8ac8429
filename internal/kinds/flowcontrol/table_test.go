package flowcontrol_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/flowcontrol"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestFlowSchemaRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(flowcontrol.Kinds(), "flowschemas.flowcontrol.apiserver.k8s.io"),
		"Name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL",
		[]tabletest.Case{
			{"new", `{spec: {priorityLevelConfiguration: {name: low}, matchingPrecedence: 7}}`, "x | low | 7 | <none> | 90m | ?"},
			{
				"looked at",
				`{spec: {priorityLevelConfiguration: {name: low}, distinguisherMethod: {type: ByUser}},` +
					` status: {conditions: [{type: Other, status: "?"}, {type: Dangling, status: "True"}]}}`,
				"x | low | 0 | ByUser | 90m | True",
			},
		},
	)
}

func TestPriorityLevelRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(flowcontrol.Kinds(), "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"),
		"Name | Type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age",
		[]tabletest.Case{
			{"exempt", `{spec: {type: Exempt}}`, "x | Exempt | <none> | <none> | <none> | <none> | 90m"},
			{
				"rejecting", `{spec: {type: Limited, limited: {nominalConcurrencyShares: 0, limitResponse: {type: Reject}}}}`,
				"x | Limited | 0 | <none> | <none> | <none> | 90m",
			},
			{
				"queuing",
				`{spec: {type: Limited, limited: {nominalConcurrencyShares: 5,` +
					` limitResponse: {type: Queue, queuing: {queues: 2, handSize: 1, queueLengthLimit: 3}}}}}`,
				"x | Limited | 5 | 2 | 1 | 3 | 90m",
			},
		},
	)
}
