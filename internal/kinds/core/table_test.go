package core_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/core"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestNamespaceRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(core.Kinds(), "namespaces"), "Name | Status | Age", []tabletest.Case{
		{"active", `{status: {phase: Active}}`, "x | Active | 90m"},
		{"terminating", `{status: {phase: Terminating}}`, "x | Terminating | 90m"},
	})
}

func TestConfigMapAndSecretRowsCountTheirData(t *testing.T) {
	tabletest.Check(t, tabletest.Of(core.Kinds(), "configmaps"), "Name | Data | Age", []tabletest.Case{
		{"full", `{data: {a: "1", b: "2"}, binaryData: {c: AAEC}}`, "x | 3 | 90m"},
		{"empty", ``, "x | 0 | 90m"},
	})
	tabletest.Check(t, tabletest.Of(core.Kinds(), "secrets"), "Name | Type | Data | Age", []tabletest.Case{
		{"full", `{type: Opaque, data: {a: YQ==, b: Yg==}}`, "x | Opaque | 2 | 90m"},
	})
}

func TestServiceAccountRowsDoNotCountSecrets(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(core.Kinds(), "serviceaccounts"),
		"Name | Age",
		[]tabletest.Case{{"with secrets", `{secrets: [{name: a}]}`, "x | 90m"}},
	)
}

func TestLimitRangeRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(core.Kinds(), "limitranges"), "Name | Created At", []tabletest.Case{
		{"created", ``, "x | 2026-05-01T12:00:00Z"},
		{"created elsewhere", `metadata: {creationTimestamp: "2026-05-01T14:00:00+02:00"}`, "x | 2026-05-01T12:00:00Z"},
	})
}

func TestResourceQuotaRowsShowWhatWasObserved(t *testing.T) {
	tabletest.Check(t, tabletest.Of(core.Kinds(), "resourcequotas"), "Name | Request | Limit | Age", []tabletest.Case{
		{
			"observed", `
spec: {hard: {pods: "99"}}
status:
  hard: {requests.memory: 1024Mi, pods: "10", limits.memory: 2Gi, limits.cpu: "8", limits: "1"}
  used: {pods: "3", limits.cpu: 1500m, services: "1"}`,
			"x | limits: 0/1, pods: 3/10, requests.memory: 0/1Gi | limits.cpu: 1500m/8, limits.memory: 0/2Gi | 90m",
		},
		{"not observed", `{spec: {hard: {pods: "10"}}}`, "x |  |  | 90m"},
	})
}

func TestEventRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(core.Kinds(), "events"),
		"Last Seen | Type | Reason | Object | Subobject* | Source* | Message | First Seen* | Count* | Name*",
		[]tabletest.Case{
			{
				"counted", `
type: Warning
reason: BackOff
message: "  Back-off restarting\n"
involvedObject: {kind: Pod, name: web, fieldPath: "spec.containers{web}"}
source: {component: kubelet, host: node-1}
firstTimestamp: "2026-05-01T12:00:00Z"
lastTimestamp: "2026-05-01T13:10:00Z"
count: 7`,
				"20m | Warning | BackOff | pod/web | spec.containers{web} | kubelet, node-1 | Back-off restarting | 90m | 7 | x",
			},
			{
				"single", `
type: Normal
reason: Scheduled
involvedObject: {kind: Pod, name: web}
eventTime: "2026-05-01T13:00:00.000000Z"
reportingComponent: default-scheduler
reportingInstance: scheduler-0`,
				"30m | Normal | Scheduled | pod/web |  | default-scheduler, scheduler-0 |  | 30m | 1 | x",
			},
			{
				"series", `
involvedObject: {kind: ReplicaSet}
eventTime: "2026-05-01T12:00:00.000000Z"
lastTimestamp: "2026-05-01T12:10:00Z"
count: 3
series: {count: 12, lastObservedTime: "2026-05-01T13:20:00.000000Z"}`,
				"10m |  |  | replicaset |  |  |  | 90m | 12 | x",
			},
			{"bare", ``, "<unknown> |  |  |  |  |  |  | <unknown> | 1 | x"},
		},
	)
}

func TestNodeRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(core.Kinds(), "nodes"),
		"Name | Status | Roles | Age | Version | Internal-IP* | External-IP* | OS-Image* | Kernel-Version* | Container-Runtime*",
		[]tabletest.Case{
			{
				"ready", `
metadata: {labels: {node-role.kubernetes.io/worker: "", node-role.kubernetes.io/control-plane: "",` +
					` node-role.kubernetes.io/: "", kubernetes.io/role: worker}}
status:
  conditions: [{type: MemoryPressure, status: "False"}, {type: Ready, status: "True"}]
  addresses: [{type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: 10.0.0.2}, {type: ExternalIP,` +
					` address: 198.51.100.1}]
  nodeInfo: {kubeletVersion: v1.37.2, osImage: Example OS, kernelVersion: 6.12.0,` +
					` containerRuntimeVersion: "containerd://2.1.0", architecture: arm64}`,
				"x | Ready | control-plane,worker | 90m | v1.37.2 | 10.0.0.1 | 198.51.100.1 | Example OS | 6.12.0 (arm64) " +
					"| containerd://2.1.0",
			},
			{
				"unreachable and cordoned",
				`{spec: {unschedulable: true}, status: {conditions: [{type: Ready, status: Unknown}]}}`,
				"x | NotReady,SchedulingDisabled | <none> | 90m |  | <none> | <none> | <unknown> | <unknown> | <unknown>",
			},
			{"new", ``, "x | Unknown | <none> | 90m |  | <none> | <none> | <unknown> | <unknown> | <unknown>"},
		},
	)
}
