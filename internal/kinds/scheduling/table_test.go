package scheduling_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/scheduling"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestPriorityClassRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(scheduling.Kinds(), "priorityclasses.scheduling.k8s.io"),
		"Name | Value | Global-Default | Age | PreemptionPolicy",
		[]tabletest.Case{
			{"default", `{value: 1000, globalDefault: true, preemptionPolicy: Never}`, "x | 1000 | true | 90m | Never"},
			{"not defaulted", `{value: -1}`, "x | -1 | false | 90m |"},
		},
	)
}
