package core_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/core"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestServiceRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(core.Kinds(), "services"),
		"Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*",
		[]tabletest.Case{
			{
				"cluster IP",
				`spec: {type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ports: [{port: 80, protocol: ` +
					`TCP}, {port: 53, protocol: UDP}], selector: {b: "2", a: "1"}}`,
				"x | ClusterIP | 10.0.0.1 | <none> | 80/TCP,53/UDP | 90m | a=1,b=2",
			},
			{"headless", `spec: {type: ClusterIP, clusterIPs: [None]}`, "x | ClusterIP | None | <none> | <none> | 90m | <none>"},
			{
				"external IPs",
				`spec: {type: ClusterIP, externalIPs: [192.0.2.2, 192.0.2.1]}`,
				"x | ClusterIP | <none> | 192.0.2.2,192.0.2.1 | <none> | 90m | <none>",
			},
			{
				"node port",
				`spec: {type: NodePort, ports: [{port: 80, nodePort: 30080, protocol: TCP}]}`,
				"x | NodePort | <none> | <none> | 80:30080/TCP | 90m | <none>",
			},
			{
				"no load balancer yet",
				`spec: {type: LoadBalancer}`,
				"x | LoadBalancer | <none> | <pending> | <none> | 90m | <none>",
			},
			{
				"load balancer", `
spec: {type: LoadBalancer, externalIPs: [192.0.2.1]}
status: {loadBalancer: {ingress: [{hostname: lb.example.org}, {ip: 198.51.100.9, hostname: a.example.org}, {ip: 198.51.100.10},` +
					` {ip: 198.51.100.9}, {}]}}`,
				"x | LoadBalancer | <none> | 198.51.100.10,198.51.100.9,lb.example.org,192.0.2.1 | <none> | 90m | <none>",
			},
			{
				"external name",
				`spec: {type: ExternalName, externalName: db.example.org}`,
				"x | ExternalName | <none> | db.example.org | <none> | 90m | <none>",
			},
			{"no type", ``, "x |  | <none> | <unknown> | <none> | 90m | <none>"},
		},
	)
}

func TestEndpointsRowsShowThreeAddresses(t *testing.T) {
	tabletest.Check(t, tabletest.Of(core.Kinds(), "endpoints"), "Name | Endpoints | Age", []tabletest.Case{
		{"none", ``, "x | <none> | 90m"},
		{"none is ready", `subsets: [{notReadyAddresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]`, "x |  | 90m"},
		{"no port", `subsets: [{addresses: [{ip: 10.0.0.1}]}]`, "x | 10.0.0.1 | 90m"},
		{
			"three",
			`subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}, {ip: "fd00::1"}], ports: [{port: 80}]}]`,
			"x | 10.0.0.1:80,10.0.0.2:80,[fd00::1]:80 | 90m",
		},
		{
			"four, port by port", `subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], ports: [{port: 80}, {port: 81}]}]`,
			"x | 10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more... | 90m",
		},
	})
}
