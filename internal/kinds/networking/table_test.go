package printers_test

import "testing"

func TestServiceRows(t *testing.T) {
	checkRows(t, "services", "Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector*", []rowCase{
		{
			"cluster IP", `spec: {type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"], ports: [{port: 80, protocol: TCP}, {port: 53, protocol: UDP}], selector: {b: "2", a: "1"}}`,
			"x | ClusterIP | 10.0.0.1 | <none> | 80/TCP,53/UDP | 90m | a=1,b=2",
		},
		{"headless", `spec: {type: ClusterIP, clusterIPs: [None]}`, "x | ClusterIP | None | <none> | <none> | 90m | <none>"},
		{"external IPs", `spec: {type: ClusterIP, externalIPs: [192.0.2.2, 192.0.2.1]}`, "x | ClusterIP | <none> | 192.0.2.2,192.0.2.1 | <none> | 90m | <none>"},
		{"node port", `spec: {type: NodePort, ports: [{port: 80, nodePort: 30080, protocol: TCP}]}`, "x | NodePort | <none> | <none> | 80:30080/TCP | 90m | <none>"},
		{"no load balancer yet", `spec: {type: LoadBalancer}`, "x | LoadBalancer | <none> | <pending> | <none> | 90m | <none>"},
		{
			"load balancer", `
spec: {type: LoadBalancer, externalIPs: [192.0.2.1]}
status: {loadBalancer: {ingress: [{hostname: lb.example.org}, {ip: 198.51.100.9, hostname: a.example.org}, {ip: 198.51.100.10}, {ip: 198.51.100.9}, {}]}}`,
			"x | LoadBalancer | <none> | 198.51.100.10,198.51.100.9,lb.example.org,192.0.2.1 | <none> | 90m | <none>",
		},
		{"external name", `spec: {type: ExternalName, externalName: db.example.org}`, "x | ExternalName | <none> | db.example.org | <none> | 90m | <none>"},
		{"no type", ``, "x |  | <none> | <unknown> | <none> | 90m | <none>"},
	})
}

func TestEndpointsRowsShowThreeAddresses(t *testing.T) {
	checkRows(t, "endpoints", "Name | Endpoints | Age", []rowCase{
		{"none", ``, "x | <none> | 90m"},
		{"none is ready", `subsets: [{notReadyAddresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]`, "x |  | 90m"},
		{"no port", `subsets: [{addresses: [{ip: 10.0.0.1}]}]`, "x | 10.0.0.1 | 90m"},
		{"three", `subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}, {ip: "fd00::1"}], ports: [{port: 80}]}]`, "x | 10.0.0.1:80,10.0.0.2:80,[fd00::1]:80 | 90m"},
		{
			"four, port by port", `subsets: [{addresses: [{ip: 10.0.0.1}, {ip: 10.0.0.2}], ports: [{port: 80}, {port: 81}]}]`,
			"x | 10.0.0.1:80,10.0.0.2:80,10.0.0.1:81 + 1 more... | 90m",
		},
	})
}

func TestEndpointSliceRows(t *testing.T) {
	checkRows(t, "endpointslices.discovery.k8s.io", "Name | AddressType | Ports | Endpoints | Age", []rowCase{
		{"empty", `{addressType: IPv4, endpoints: []}`, "x | IPv4 | <unset> | <unset> | 90m"},
		{
			"many", `{addressType: IPv6, ports: [{name: http, port: 80}, {name: any}, {}], endpoints: [{addresses: ["fd00::1"]}, {addresses: ["fd00::2", "fd00::3", "fd00::4"]}, {addresses: ["fd00::5"]}]}`,
			"x | IPv6 | 80,any,* | fd00::1,fd00::2,fd00::3 + 2 more... | 90m",
		},
	})
}

func TestIngressRows(t *testing.T) {
	checkRows(t, "ingresses.networking.k8s.io", "Name | Class | Hosts | Address | Ports | Age", []rowCase{
		{"any host", `spec: {rules: [{}]}`, "x | <none> | * |  | 80 | 90m"},
		{
			"three hosts", `
spec: {ingressClassName: nginx, tls: [{}], rules: [{host: c}, {host: b}, {host: a}]}
status: {loadBalancer: {ingress: [{hostname: lb.example.org}, {ip: 198.51.100.9}, {ip: 198.51.100.10}, {ip: 198.51.100.9}]}}`,
			"x | nginx | c,b,a | 198.51.100.10,198.51.100.9,lb.example.org | 80, 443 | 90m",
		},
		{"more rules", `spec: {rules: [{host: a}, {}, {host: b}, {host: c}, {}, {host: d}]}`, "x | <none> | a,b,c + 3 more... |  | 80 | 90m"},
	})
}

func TestIngressClassRows(t *testing.T) {
	checkRows(t, "ingressclasses.networking.k8s.io", "Name | Controller | Parameters | Age", []rowCase{
		{"bare", `spec: {controller: example.org/c}`, "x | example.org/c | <none> | 90m"},
		{
			"default", `{metadata: {annotations: {ingressclass.kubernetes.io/is-default-class: "true"}}, spec: {controller: c, parameters: {apiGroup: example.org, kind: Config, name: fast}}}`,
			"x (default) | c | Config.example.org/fast | 90m",
		},
		{"core parameters", `spec: {controller: c, parameters: {kind: ConfigMap, name: fast}}`, "x | c | ConfigMap/fast | 90m"},
	})
}

func TestNetworkPolicyRows(t *testing.T) {
	checkRows(t, "networkpolicies.networking.k8s.io", "Name | Pod-Selector | Age", []rowCase{
		{"all pods", `spec: {podSelector: {}}`, "x | <none> | 90m"},
		{"some pods", `spec: {podSelector: {matchLabels: {app: web}, matchExpressions: [{key: tier, operator: NotIn, values: [b, a]}]}}`, "x | app=web,tier notin (a,b) | 90m"},
		{"invalid", `spec: {podSelector: {matchExpressions: [{key: a, operator: Sometimes}]}}`, "x | <error> | 90m"},
	})
}

func TestLeaseRows(t *testing.T) {
	checkRows(t, "leases.coordination.k8s.io", "Name | Holder | Age", []rowCase{
		{"held", `spec: {holderIdentity: node-1}`, "x | node-1 | 90m"},
		{"free", ``, "x |  | 90m"},
	})
}
