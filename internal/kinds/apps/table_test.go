package printers_test

import "testing"

func TestDeploymentRows(t *testing.T) {
	checkRows(t, "deployments.apps", "Name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*", []rowCase{
		{
			"rolls out", `
spec:
  replicas: 3
  selector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: In, values: [b, a]}]}
  template: {spec: {containers: [{name: web, image: "web:1"}, {name: log, image: "log:2"}]}}
status: {replicas: 4, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1}`,
			"x | 1/3 | 2 | 1 | 90m | web,log | web:1,log:2 | app=web,tier in (a,b)",
		},
		{"selects all", `spec: {replicas: 1, selector: {}}`, "x | 0/1 | 0 | 0 | 90m |  |  |"},
		{"invalid selector", `spec: {selector: {matchExpressions: [{key: a, operator: Sometimes}]}}`, "x | 0/0 | 0 | 0 | 90m |  |  | <invalid>"},
	})
}

func TestReplicaSetRows(t *testing.T) {
	checkRows(t, "replicasets.apps", "Name | Desired | Current | Ready | Age | Containers* | Images* | Selector*", []rowCase{
		{
			"running", `{spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {spec: {containers: [{name: web, image: "web:1"}]}}}, status: {replicas: 2, readyReplicas: 1}}`,
			"x | 3 | 2 | 1 | 90m | web | web:1 | app=web",
		},
		{"no selector", ``, "x | 0 | 0 | 0 | 90m |  |  | <none>"},
	})
}

func TestReplicationControllerRows(t *testing.T) {
	checkRows(t, "replicationcontrollers", "Name | Desired | Current | Ready | Age | Containers* | Images* | Selector*", []rowCase{
		{
			"running", `{spec: {replicas: 3, selector: {b: "2", a: "1"}, template: {spec: {containers: [{name: web, image: "web:1"}]}}}, status: {replicas: 2, readyReplicas: 1}}`,
			"x | 3 | 2 | 1 | 90m | web | web:1 | a=1,b=2",
		},
		{"no template", `spec: {replicas: 1}`, "x | 1 | 0 | 0 | 90m |  |  | <none>"},
	})
}

func TestStatefulSetRows(t *testing.T) {
	checkRows(t, "statefulsets.apps", "Name | Ready | Age | Containers* | Images*", []rowCase{
		{"running", `{spec: {replicas: 3, template: {spec: {containers: [{name: db, image: "db:1"}]}}}, status: {readyReplicas: 2}}`, "x | 2/3 | 90m | db | db:1"},
	})
}

func TestDaemonSetRows(t *testing.T) {
	checkRows(t, "daemonsets.apps", "Name | Desired | Current | Ready | Up-to-date | Available | Node Selector | Age | Containers* | Images* | Selector*", []rowCase{
		{
			"some nodes", `
spec: {selector: {matchLabels: {app: agent}}, template: {spec: {nodeSelector: {os: linux, disk: ssd}, containers: [{name: agent, image: "agent:1"}]}}}
status: {desiredNumberScheduled: 5, currentNumberScheduled: 4, numberReady: 3, updatedNumberScheduled: 2, numberAvailable: 1}`,
			"x | 5 | 4 | 3 | 2 | 1 | disk=ssd,os=linux | 90m | agent | agent:1 | app=agent",
		},
		{"all nodes", `spec: {selector: {matchExpressions: [{key: a, operator: Exists}]}}`, "x | 0 | 0 | 0 | 0 | 0 | <none> | 90m |  |  | a"},
	})
}

func TestControllerRevisionRowsNameTheController(t *testing.T) {
	checkRows(t, "controllerrevisions.apps", "Name | Controller | Revision | Age", []rowCase{
		{
			"of a set", `{revision: 4, metadata: {ownerReferences: [{apiVersion: v1, kind: Other, name: o, uid: u}, {apiVersion: apps/v1, kind: StatefulSet, name: db, uid: v, controller: true}]}}`,
			"x | statefulset.apps/db | 4 | 90m",
		},
		{"of the core group", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}}`, "x | pod/p | 0 | 90m"},
		{"owner is not the controller", `{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]}}`, "x | <none> | 0 | 90m"},
		{"controller without a kind", `{metadata: {ownerReferences: [{name: p, uid: u, controller: true}]}}`, "x | p | 0 | 90m"},
	})
}

func TestPodTemplateRows(t *testing.T) {
	checkRows(t, "podtemplates", "Name | Containers | Images | Pod Labels", []rowCase{
		{"full", `template: {metadata: {labels: {b: "2", a: "1"}}, spec: {containers: [{name: web, image: "web:1"}]}}`, "x | web | web:1 | a=1,b=2"},
		{"empty", ``, "x |  |  | <none>"},
	})
}

func TestJobRows(t *testing.T) {
	checkRows(t, "jobs.batch", "Name | Status | Completions | Duration | Age | Containers* | Images* | Selector*", []rowCase{
		{
			"running", `{spec: {completions: 5, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: i}]}}}, status: {succeeded: 2, startTime: "2026-05-01T13:00:00Z"}}`,
			"x | Running | 2/5 | 30m | 90m | c | i | a=b",
		},
		{
			"complete", `{spec: {completions: 1}, status: {succeeded: 1, startTime: "2026-05-01T12:00:00Z", completionTime: "2026-05-01T12:03:07Z", conditions: [{type: SuccessCriteriaMet, status: "True"}, {type: Complete, status: "True"}]}}`,
			"x | Complete | 1/1 | 3m7s | 90m |  |  | <none>",
		},
		{"failed", `status: {conditions: [{type: FailureTarget, status: "True"}, {type: Failed, status: "True"}]}`, "x | Failed | 0/1 |  | 90m |  |  | <none>"},
		{"failing", `status: {conditions: [{type: FailureTarget, status: "True"}]}`, "x | FailureTarget | 0/1 |  | 90m |  |  | <none>"},
		{"succeeding", `status: {conditions: [{type: SuccessCriteriaMet, status: "True"}]}`, "x | SuccessCriteriaMet | 0/1 |  | 90m |  |  | <none>"},
		{"suspended", `status: {conditions: [{type: Suspended, status: "True"}]}`, "x | Suspended | 0/1 |  | 90m |  |  | <none>"},
		{"first condition counts", `status: {conditions: [{type: Suspended, status: "False"}, {type: Suspended, status: "True"}]}`, "x | Running | 0/1 |  | 90m |  |  | <none>"},
		{
			"terminating", `{metadata: {deletionTimestamp: "2026-05-01T13:00:00Z"}, status: {conditions: [{type: Suspended, status: "True"}]}}`,
			"x | Terminating | 0/1 |  | 90m |  |  | <none>",
		},
		{"work queue", `{spec: {parallelism: 4}, status: {succeeded: 1}}`, "x | Running | 1/1 of 4 |  | 90m |  |  | <none>"},
	})
}

func TestCronJobRows(t *testing.T) {
	checkRows(t, "cronjobs.batch", "Name | Schedule | Timezone | Suspend | Active | Last Schedule | Age | Containers* | Images* | Selector*", []rowCase{
		{
			"suspended", `
spec: {schedule: "0 3 * * *", timeZone: Europe/Berlin, suspend: true, jobTemplate: {spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: i}]}}}}}
status: {active: [{name: a}, {name: b}], lastScheduleTime: "2026-05-01T12:30:00Z"}`,
			"x | 0 3 * * * | Europe/Berlin | True | 2 | 60m | 90m | c | i | a=b",
		},
		{"never ran", `spec: {schedule: "@daily", suspend: false}`, "x | @daily | <none> | False | 0 | <none> | 90m |  |  | <none>"},
		{"not defaulted", `spec: {schedule: "@daily"}`, "x | @daily | <none> | <unset> | 0 | <none> | 90m |  |  | <none>"},
	})
}
