package batch_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/batch"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestJobRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(batch.Kinds(), "jobs.batch"),
		"Name | Status | Completions | Duration | Age | Containers* | Images* | Selector*",
		[]tabletest.Case{
			{
				"running",
				`{spec: {completions: 5, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: ` +
					`i}]}}}, status: {succeeded: 2, startTime: "2026-05-01T13:00:00Z"}}`,
				"x | Running | 2/5 | 30m | 90m | c | i | a=b",
			},
			{
				"complete",
				`{spec: {completions: 1}, status: {succeeded: 1, startTime: "2026-05-01T12:00:00Z", completionTime: ` +
					`"2026-05-01T12:03:07Z", conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete,` +
					` status: "True"}]}}`,
				"x | Complete | 1/1 | 3m7s | 90m |  |  | <none>",
			},
			{
				"failed",
				`status: {conditions: [{type: FailureTarget, status: "True"}, {type: Failed, status: "True"}]}`,
				"x | Failed | 0/1 |  | 90m |  |  | <none>",
			},
			{
				"failing",
				`status: {conditions: [{type: FailureTarget, status: "True"}]}`,
				"x | FailureTarget | 0/1 |  | 90m |  |  | <none>",
			},
			{
				"succeeding",
				`status: {conditions: [{type: SuccessCriteriaMet, status: "True"}]}`,
				"x | SuccessCriteriaMet | 0/1 |  | 90m |  |  | <none>",
			},
			{
				"suspended",
				`status: {conditions: [{type: Suspended, status: "True"}]}`,
				"x | Suspended | 0/1 |  | 90m |  |  | <none>",
			},
			{
				"first condition counts",
				`status: {conditions: [{type: Suspended, status: "False"}, {type: Suspended, status: "True"}]}`,
				"x | Running | 0/1 |  | 90m |  |  | <none>",
			},
			{
				"terminating",
				`{metadata: {deletionTimestamp: "2026-05-01T13:00:00Z"}, status: {conditions: [{type: Suspended,` +
					` status: "True"}]}}`,
				"x | Terminating | 0/1 |  | 90m |  |  | <none>",
			},
			{"work queue", `{spec: {parallelism: 4}, status: {succeeded: 1}}`, "x | Running | 1/1 of 4 |  | 90m |  |  | <none>"},
		},
	)
}

func TestCronJobRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(batch.Kinds(), "cronjobs.batch"),
		"Name | Schedule | Timezone | Suspend | Active | Last Schedule | Age | Containers* | Images* | Selector*",
		[]tabletest.Case{
			{
				"suspended", `
spec: {schedule: "0 3 * * *", timeZone: Europe/Berlin, suspend: true, jobTemplate: {spec: {selector: {matchLabels: {a: b}},` +
					` template: {spec: {containers: [{name: c, image: i}]}}}}}
status: {active: [{name: a}, {name: b}], lastScheduleTime: "2026-05-01T12:30:00Z"}`,
				"x | 0 3 * * * | Europe/Berlin | True | 2 | 60m | 90m | c | i | a=b",
			},
			{
				"never ran",
				`spec: {schedule: "@daily", suspend: false}`,
				"x | @daily | <none> | False | 0 | <none> | 90m |  |  | <none>",
			},
			{"not defaulted", `spec: {schedule: "@daily"}`, "x | @daily | <none> | <unset> | 0 | <none> | 90m |  |  | <none>"},
		},
	)
}
