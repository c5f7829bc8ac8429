package apps_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/apps"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestDeploymentRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(apps.Kinds(), "deployments.apps"),
		"Name | Ready | Up-to-date | Available | Age | Containers* | Images* | Selector*",
		[]tabletest.Case{
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
			{
				"invalid selector",
				`spec: {selector: {matchExpressions: [{key: a, operator: Sometimes}]}}`,
				"x | 0/0 | 0 | 0 | 90m |  |  | <invalid>",
			},
		},
	)
}

func TestReplicaSetRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(apps.Kinds(), "replicasets.apps"),
		"Name | Desired | Current | Ready | Age | Containers* | Images* | Selector*",
		[]tabletest.Case{
			{
				"running",
				`{spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {spec: {containers: [{name: web, image: ` +
					`"web:1"}]}}}, status: {replicas: 2, readyReplicas: 1}}`,
				"x | 3 | 2 | 1 | 90m | web | web:1 | app=web",
			},
			{"no selector", ``, "x | 0 | 0 | 0 | 90m |  |  | <none>"},
		},
	)
}

func TestStatefulSetRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(apps.Kinds(), "statefulsets.apps"),
		"Name | Ready | Age | Containers* | Images*",
		[]tabletest.Case{
			{
				"running",
				`{spec: {replicas: 3, template: {spec: {containers: [{name: db, image: "db:1"}]}}}, status: {readyReplicas: 2}}`,
				"x | 2/3 | 90m | db | db:1",
			},
		},
	)
}

func TestDaemonSetRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(apps.Kinds(), "daemonsets.apps"),
		"Name | Desired | Current | Ready | Up-to-date | Available | Node Selector | Age | Containers* | Images* | Selector*",
		[]tabletest.Case{
			{
				"some nodes", `
spec: {selector: {matchLabels: {app: agent}}, template: {spec: {nodeSelector: {os: linux, disk: ssd},` +
					` containers: [{name: agent, image: "agent:1"}]}}}
status: {desiredNumberScheduled: 5, currentNumberScheduled: 4, numberReady: 3, updatedNumberScheduled: 2, numberAvailable: 1}`,
				"x | 5 | 4 | 3 | 2 | 1 | disk=ssd,os=linux | 90m | agent | agent:1 | app=agent",
			},
			{
				"all nodes",
				`spec: {selector: {matchExpressions: [{key: a, operator: Exists}]}}`,
				"x | 0 | 0 | 0 | 0 | 0 | <none> | 90m |  |  | a",
			},
		},
	)
}

func TestControllerRevisionRowsNameTheController(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(apps.Kinds(), "controllerrevisions.apps"),
		"Name | Controller | Revision | Age",
		[]tabletest.Case{
			{
				"of a set",
				`{revision: 4, metadata: {ownerReferences: [{apiVersion: v1, kind: Other, name: o, uid: u}, {apiVersion: ` +
					`apps/v1, kind: StatefulSet, name: db, uid: v, controller: true}]}}`,
				"x | statefulset.apps/db | 4 | 90m",
			},
			{
				"of the core group",
				`{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}}`,
				"x | pod/p | 0 | 90m",
			},
			{
				"owner is not the controller",
				`{metadata: {ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u}]}}`,
				"x | <none> | 0 | 90m",
			},
			{
				"controller without a kind",
				`{metadata: {ownerReferences: [{name: p, uid: u, controller: true}]}}`,
				"x | p | 0 | 90m",
			},
		},
	)
}
