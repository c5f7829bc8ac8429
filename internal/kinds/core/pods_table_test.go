package core_test

import (
	"encoding/json"
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/core"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestPodRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(core.Kinds(), "pods"),
		"Name | Ready | Status | Restarts | Age | IP* | Node* | Nominated Node* | Readiness Gates*",
		[]tabletest.Case{
			{
				"pending",
				`{spec: {containers: [{name: web}]}, status: {phase: Pending}}`,
				"x | 0/1 | Pending | 0 | 90m | <none> | <none> | <none> | <none>",
			},
			{
				"running", `
spec: {nodeName: node-1, containers: [{name: web}], readinessGates: [{conditionType: a}, {conditionType: b}, {conditionType: c}]}
status:
  phase: Running
  podIP: 10.0.0.1
  podIPs: [{ip: 10.0.0.1}, {ip: "fd00::1"}]
  conditions: [{type: a, status: "True"}, {type: b, status: "False"}, {type: b, status: "True"}]
  containerStatuses: [{name: web, ready: true, state: {running: {}}}]`,
				"x | 1/1 | Running | 0 | 90m | 10.0.0.1 | node-1 | <none> | 1/3",
			},
			{
				"nominated", `{spec: {containers: [{name: web}]}, status: {phase: Pending, nominatedNodeName: node-2}}`,
				"x | 0/1 | Pending | 0 | 90m | <none> | <none> | node-2 | <none>",
			},
			{"only podIPs", `{status: {podIPs: [{ip: 10.0.0.3}]}}`, "x | 0/0 |  | 0 | 90m | 10.0.0.3 | <none> | <none> | <none>"},
			{
				"podIP differs from podIPs",
				`{status: {podIP: 10.0.0.4, podIPs: [{ip: 10.0.0.3}]}}`,
				"x | 0/0 |  | 0 | 90m | 10.0.0.4 | <none> | <none> | <none>",
			},
			{
				"bookmark",
				`metadata: {name: "", creationTimestamp: null}`,
				"| 0/0 |  | 0 | <unknown> | <none> | <none> | <none> | <none>",
			},
		},
	)
}

// podCase is a pod and what it shows: READY, STATUS, RESTARTS.
type podCase struct{ name, spec, status, want string }

func checkPods(t *testing.T, cases []podCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			o := tabletest.Parse(t, "spec: "+c.spec+"\nstatus: "+c.status)
			if got := tabletest.Join(tabletest.Cells(tabletest.Of(core.Kinds(), "pods"), o)[1:4]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestPodStatusNamesTheReason(t *testing.T) {
	const one, two = `{containers: [{name: a}]}`, `{containers: [{name: a}, {name: b}]}`
	checkPods(t, []podCase{
		{
			"unschedulable",
			one,
			`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable}]}`,
			"0/1 | Pending | 0",
		},
		{
			"gated",
			one,
			`{phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`,
			"0/1 | SchedulingGated | 0",
		},
		{"evicted", one, `{phase: Failed, reason: Evicted}`, "0/1 | Evicted | 0"},
		{
			"waits",
			one,
			`{phase: Pending, containerStatuses: [{state: {waiting: {reason: ImagePullBackOff}}}]}`,
			"0/1 | ImagePullBackOff | 0",
		},
		{"waits without a reason", one, `{phase: Pending, containerStatuses: [{state: {waiting: {}}}]}`, "0/1 | Pending | 0"},
		{
			"first of two reasons",
			two,
			`{phase: Pending, containerStatuses: [{state: {waiting: {reason: First}}}, {state: {waiting: {reason: Second}}}]}`,
			"0/2 | First | 0",
		},
		{"runs and is not ready", one, `{phase: Running, containerStatuses: [{state: {running: {}}}]}`, "0/1 | Running | 0"},
		{
			"ready says a container that does not run",
			one,
			`{phase: Running, containerStatuses: [{ready: true}]}`,
			"0/1 | Running | 0",
		},
		{
			"failed",
			one,
			`{phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 1, reason: Error}}}]}`,
			"0/1 | Error | 0",
		},
		{"exit code", one, `{phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 3}}}]}`, "0/1 | ExitCode:3 | 0"},
		{
			"signal",
			one,
			`{phase: Failed, containerStatuses: [{state: {terminated: {exitCode: 137, signal: 9}}}]}`,
			"0/1 | Signal:9 | 0",
		},
		{
			"completed",
			one,
			`{phase: Succeeded, containerStatuses: [{state: {terminated: {exitCode: 0, reason: Completed}}}]}`,
			"0/1 | Completed | 0",
		},
		{
			"one of two completed, and the pod is ready", two,
			`{phase: Running, conditions: [{type: Ready, status: "True"}], containerStatuses: [{state: {terminated: {reason: ` +
				`Completed}}}, {ready: true, state: {running: {}}}]}`,
			"1/2 | Running | 0",
		},
		{
			"one of two completed, and the pod is not ready", two,
			`{phase: Running, conditions: [{type: Ready, status: "False"}], containerStatuses: [{state: {terminated: {reason: ` +
				`Completed}}}, {ready: true, state: {running: {}}}]}`,
			"1/2 | NotReady | 0",
		},
		{
			"one completed, the other failed", two,
			`{phase: Failed, containerStatuses: [{state: {terminated: {reason: Completed}}}, {state: {terminated: {exitCode: 1,` +
				` reason: Error}}}]}`,
			"0/2 | Error | 0",
		},
	})
}

func TestPodBeingDeletedIsTerminatingUntilItEnds(t *testing.T) {
	for status, want := range map[string]string{
		`{phase: Running}`:                    "Terminating",
		`{phase: Running, reason: NodeLost}`:  "Unknown",
		`{phase: Failed, reason: Evicted}`:    "Evicted",
		`{phase: Succeeded}`:                  "Succeeded",
		`{phase: Pending, reason: Undecided}`: "Terminating",
	} {
		o := tabletest.Parse(t, "metadata: {deletionTimestamp: \"2026-05-01T12:10:00Z\"}\nstatus: "+status)
		if got := tabletest.Cells(tabletest.Of(core.Kinds(), "pods"), o)[2]; got != want {
			t.Errorf("%s: got %s, want %s", status, got, want)
		}
	}
}

func TestPodRestarts(t *testing.T) {
	const spec = `{containers: [{name: a}, {name: b}]}`
	checkPods(t, []podCase{
		{"without a date", spec, `{phase: Running, containerStatuses: [{restartCount: 3}]}`, "0/2 | Running | 3"},
		{
			"the last one counts", spec, `
  phase: Running
  containerStatuses:
  - {restartCount: 3, lastState: {terminated: {finishedAt: "2026-05-01T13:00:00Z"}}}
  - {restartCount: 1, lastState: {terminated: {finishedAt: "2026-05-01T13:20:00Z"}}}`, "0/2 | Running | 4 (10m ago)",
		},
		{
			"not restarted",
			spec,
			`{phase: Running, containerStatuses: [{lastState: {terminated: {finishedAt: "2026-05-01T13:00:00Z"}}}]}`,
			"0/2 | Running | 0",
		},
		{
			"crash loop", spec,
			`{phase: Running, containerStatuses: [{restartCount: 12, state: {waiting: {reason: CrashLoopBackOff}}, lastState: ` +
				`{terminated: {finishedAt: "2026-05-01T13:25:00Z"}}}]}`,
			"0/2 | CrashLoopBackOff | 12 (5m ago)",
		},
	})
}

func TestPodShowsInitContainersUntilAllAreDone(t *testing.T) {
	const spec = `{initContainers: [{name: i}, {name: j}], containers: [{name: a}]}`
	checkPods(t, []podCase{
		{
			"first runs",
			spec,
			`{phase: Pending, initContainerStatuses: [{name: i, state: {running: {}}}, {name: j}]}`,
			"0/1 | Init:0/2 | 0",
		},
		{
			"second runs",
			spec,
			`{phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {}}}, {name: j, state: {running: {}}}]}`,
			"0/1 | Init:1/2 | 0",
		},
		{
			"pod initializes",
			spec,
			`{phase: Pending, initContainerStatuses: [{name: i, state: {waiting: {reason: PodInitializing}}}]}`,
			"0/1 | Init:0/2 | 0",
		},
		{
			"failed",
			spec,
			`{phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]}`,
			"0/1 | Init:Error | 0",
		},
		{
			"exit code",
			spec,
			`{phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 4}}}]}`,
			"0/1 | Init:ExitCode:4 | 0",
		},
		{
			"signal",
			spec,
			`{phase: Pending, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 137, signal: 9}}}]}`,
			"0/1 | Init:Signal:9 | 0",
		},
		{
			"crash loop, and its restarts", spec,
			`{phase: Pending, initContainerStatuses: [{name: i, restartCount: 6, state: {waiting: {reason: CrashLoopBackOff}}, ` +
				`lastState: {terminated: {finishedAt: "2026-05-01T13:00:00Z"}}}], containerStatuses: [{restartCount: 2}]}`,
			"0/1 | Init:CrashLoopBackOff | 6 (30m ago)",
		},
		{
			"done, and the restarts of the others", spec,
			`{phase: Running, initContainerStatuses: [{name: i, restartCount: 5, state: {terminated: {}}}, {name: j, state: ` +
				`{terminated: {}}}], containerStatuses: [{restartCount: 2, ready: true, state: {running: {}}}]}`,
			"1/1 | Running | 2",
		},
		{
			"init container runs again in an initialized pod", spec,
			`{phase: Running, conditions: [{type: Initialized, status: "True"}], initContainerStatuses: [{name: i, state: ` +
				`{running: {}}}], containerStatuses: [{state: {terminated: {exitCode: 1, reason: Error}}}]}`,
			"0/1 | Error | 0",
		},
		{
			"pod says that it is not initialized", spec,
			`{phase: Pending, conditions: [{type: Initialized, status: "False"}], initContainerStatuses: [{name: i, state: ` +
				`{running: {}}}], containerStatuses: [{state: {terminated: {exitCode: 1, reason: Error}}}]}`,
			"0/1 | Init:0/2 | 0",
		},
	})
}

func TestPodCountsSidecarsAsContainers(t *testing.T) {
	const spec = `{initContainers: [{name: i}, {name: s, restartPolicy: Always}], containers: [{name: a}]}`
	const done, runs = `{name: i, restartCount: 2, state: {terminated: {}}}`,
		`containerStatuses: [{restartCount: 1, ready: true, state: {running: {}}}]`
	checkPods(t, []podCase{
		{
			"ready",
			spec,
			`{phase: Running, initContainerStatuses: [` + done +
				`, {name: s, restartCount: 3, ready: true, started: true, state: {running: {}}}], ` + runs + `}`,
			"2/2 | Running | 4",
		},
		{
			"not ready",
			spec,
			`{phase: Running, initContainerStatuses: [` + done + `, {name: s, started: true, state: {running: {}}}], ` + runs +
				`}`,
			"1/2 | Running | 1",
		},
		{
			"not started",
			spec,
			`{phase: Pending, initContainerStatuses: [` + done + `, {name: s, started: false, state: {running: {}}}]}`,
			"0/2 | Init:1/2 | 2",
		},
		{
			"failed after its start",
			spec,
			`{phase: Running, initContainerStatuses: [` + done +
				`, {name: s, started: true, state: {terminated: {exitCode: 1}}}], ` + runs + `}`,
			"1/2 | Running | 1",
		},
		{
			"restarted", spec,
			`{phase: Running, initContainerStatuses: [` + done +
				`, {name: s, restartCount: 1, started: true, lastState: {terminated: {finishedAt: "2026-05-01T13:00:00Z"}}}], ` +
				runs + `}`,
			"1/2 | Running | 2 (30m ago)",
		},
		{
			"status of another order",
			spec,
			`{phase: Running, initContainerStatuses: [{name: s, ready: true, started: true}, ` + done + `]}`,
			"1/2 | Running | 0",
		},
	})
}

func TestPodThatEndedHasTheConditionCompleted(t *testing.T) {
	for phase, want := range map[string]string{
		"Running": "null",
		"Succeeded": `[{"type":"Completed","status":"True","reason":"Succeeded","message":"The pod has ` +
			`completed successfully."}]`,
		"Failed": `[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]`,
	} {
		got, err := json.Marshal(
			tabletest.Of(core.Kinds(), "pods").RowConditions(tabletest.Parse(t, `{status: {phase: `+phase+`}}`)),
		)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s (%v), want %s", phase, got, err, want)
		}
	}
}

func TestReplicationControllerRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(core.Kinds(), "replicationcontrollers"),
		"Name | Desired | Current | Ready | Age | Containers* | Images* | Selector*",
		[]tabletest.Case{
			{
				"running",
				`{spec: {replicas: 3, selector: {b: "2", a: "1"}, template: {spec: {containers: [{name: web, image: ` +
					`"web:1"}]}}}, status: {replicas: 2, readyReplicas: 1}}`,
				"x | 3 | 2 | 1 | 90m | web | web:1 | a=1,b=2",
			},
			{"no template", `spec: {replicas: 1}`, "x | 1 | 0 | 0 | 90m |  |  | <none>"},
		},
	)
}

func TestPodTemplateRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(core.Kinds(), "podtemplates"), "Name | Containers | Images | Pod Labels", []tabletest.Case{
		{
			"full",
			`template: {metadata: {labels: {b: "2", a: "1"}}, spec: {containers: [{name: web, image: "web:1"}]}}`,
			"x | web | web:1 | a=1,b=2",
		},
		{"empty", ``, "x |  |  | <none>"},
	})
}
