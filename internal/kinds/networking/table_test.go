package networking_test

import (
	"testing"

	"github.com/gapless-io/gapless/internal/kinds/networking"
	"github.com/gapless-io/gapless/internal/kinds/table/tabletest"
)

func TestIngressRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(networking.Kinds(), "ingresses.networking.k8s.io"),
		"Name | Class | Hosts | Address | Ports | Age",
		[]tabletest.Case{
			{"any host", `spec: {rules: [{}]}`, "x | <none> | * |  | 80 | 90m"},
			{
				"three hosts", `
spec: {ingressClassName: nginx, tls: [{}], rules: [{host: c}, {host: b}, {host: a}]}
status: {loadBalancer: {ingress: [{hostname: lb.example.org}, {ip: 198.51.100.9}, {ip: 198.51.100.10}, {ip: 198.51.100.9}]}}`,
				"x | nginx | c,b,a | 198.51.100.10,198.51.100.9,lb.example.org | 80, 443 | 90m",
			},
			{
				"more rules",
				`spec: {rules: [{host: a}, {}, {host: b}, {host: c}, {}, {host: d}]}`,
				"x | <none> | a,b,c + 3 more... |  | 80 | 90m",
			},
		},
	)
}

func TestIngressClassRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(networking.Kinds(), "ingressclasses.networking.k8s.io"),
		"Name | Controller | Parameters | Age",
		[]tabletest.Case{
			{"bare", `spec: {controller: example.org/c}`, "x | example.org/c | <none> | 90m"},
			{
				"default",
				`{metadata: {annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: c, ` +
					`parameters: {apiGroup: example.org, kind: Config, name: fast}}}`,
				"x (default) | c | Config.example.org/fast | 90m",
			},
			{
				"core parameters",
				`spec: {controller: c, parameters: {kind: ConfigMap, name: fast}}`,
				"x | c | ConfigMap/fast | 90m",
			},
		},
	)
}

func TestNetworkPolicyRows(t *testing.T) {
	tabletest.Check(
		t,
		tabletest.Of(networking.Kinds(), "networkpolicies.networking.k8s.io"),
		"Name | Pod-Selector | Age",
		[]tabletest.Case{
			{"all pods", `spec: {podSelector: {}}`, "x | <none> | 90m"},
			{
				"some pods",
				`spec: {podSelector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: NotIn,` +
					` values: [b, a]}]}}`,
				"x | app=web,tier notin (a,b) | 90m",
			},
			{"invalid", `spec: {podSelector: {matchExpressions: [{key: a, operator: Sometimes}]}}`, "x | <error> | 90m"},
		},
	)
}

func TestServiceCIDRRows(t *testing.T) {
	tabletest.Check(t, tabletest.Of(networking.Kinds(), "servicecidrs.networking.k8s.io"), "Name | CIDRs | Age", []tabletest.Case{
		{"of both families", `spec: {cidrs: [10.96.0.0/12, "fd00::/108"]}`, "x | 10.96.0.0/12,fd00::/108 | 90m"},
	})
}
