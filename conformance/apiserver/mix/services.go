package mix

func (g *generator) clusterIP() any {
	return g.pick("10.0.0.6", "10.0.0.2", "10.0.0.3", "10.0.0.5", "None", "", "10.0.0.0", "10.9.0.1", "fd00::5",
		"fd00::6", "x")
}

func (g *generator) clusterIPs() any {
	return g.pick(list{"10.0.0.4"}, list{"10.0.0.4", "fd00::4"}, list{"fd00::7", "10.0.0.7"}, list{"None"},
		list{"10.0.0.4", "10.0.0.5"},
		list{"fd00::8"}, list{}, list{"", "fd00::8"})
}

func (g *generator) port(i int) object {
	p := object{"port": g.pick(80, 80, 443, 8080, 0, 70000)}
	if i > 0 || g.chance(30) {
		p["name"] = g.text(numberedName("p", i), numberedName("p", i), "p0", "", "UPPER")
	}
	g.set(20, p, "protocol", "UDP", "TCP", "SCTP", "x")
	g.set(25, p, "nodePort", 30001, 30002, 30003, 30004, 0, 20000, 70000)
	g.set(25, p, "targetPort", 80, "http", 0, "UPPER", 70000)
	g.set(5, p, "appProtocol", "http", "kubernetes.io/h2c", "x y")
	return p
}

func (g *generator) ports() list { return g.some(2, func(i int) any { return g.port(i) }) }

func (g *generator) serviceMembers(percent int, spec object) object {
	g.set(percent*3, spec, "type", "NodePort", "LoadBalancer", "ClusterIP", "ExternalName", "x")
	g.set(percent, spec, "clusterIP", g.clusterIP)
	g.set(percent/2, spec, "clusterIPs", g.clusterIPs)
	g.set(percent*3/2, spec, "ipFamilyPolicy", "SingleStack", "PreferDualStack", "RequireDualStack", "x")
	g.set(percent, spec, "ipFamilies", list{"IPv4"}, list{"IPv6"}, list{"IPv4", "IPv6"}, list{"IPv6", "IPv4"},
		list{"IPv4", "IPv4"}, list{"x"})
	g.set(percent/2, spec, "externalIPs", list{"192.0.2.1"}, list{"x"}, list{"127.0.0.1"})
	g.set(percent, spec, "externalTrafficPolicy", "Local", "Cluster", "x")
	g.set(percent/2, spec, "internalTrafficPolicy", "Local", "Cluster", "x")
	g.set(percent/2, spec, "healthCheckNodePort", 30010, 30011, 30001, 0, 10)
	g.set(percent/2, spec, "sessionAffinity", "ClientIP", "None", "x")
	g.set(percent/4, spec, "sessionAffinityConfig", object{"clientIP": object{"timeoutSeconds": 10}},
		object{"clientIP": object{"timeoutSeconds": 100000}})
	g.set(percent/2, spec, "loadBalancerIP", "192.0.2.9", "x")
	g.set(percent/2, spec, "loadBalancerClass", "example.com/lb", "x y", "other")
	g.set(percent/2, spec, "loadBalancerSourceRanges", list{"10.0.0.0/8"}, list{"x"})
	g.set(percent/2, spec, "allocateLoadBalancerNodePorts", false, true)
	g.set(percent, spec, "externalName", "example.com", "x y", "")
	g.set(percent/4, spec, "trafficDistribution", "PreferClose", "PreferSameZone", "PreferSameNode", "x")
	g.set(percent/4, spec, "publishNotReadyAddresses", true)
	return spec
}

func service(g *generator, _ place) object {
	spec := object{}
	g.set(90, spec, "ports", g.ports)
	g.set(60, spec, "selector", object{"a": "b"}, object{"bad key!": "b"}, object{})
	o := object{"spec": g.serviceMembers(18, spec)}
	g.set(3, o, "status", object{"loadBalancer": object{"ingress": list{object{"ip": "192.0.2.1"}}}})
	return o
}

func serviceChange(g *generator) object {
	switch g.IntN(6) {
	case 0:
		return object{"spec": object{"ports": g.ports()}}
	case 1:
		return object{"spec": g.serviceMembers(15, object{"ports": g.ports()})}
	case 2: // a change of the type, with what it needs
		return object{"spec": g.pick(
			object{"type": "ExternalName", "externalName": "example.com", "clusterIP": nil, "clusterIPs": nil},
			object{"type": "ExternalName", "externalName": "example.com"}, object{"type": "ClusterIP", "externalName": nil},
			object{"type": "NodePort"}, object{"type": "LoadBalancer"}, object{"type": "ClusterIP"},
			object{"type": "ClusterIP", "clusterIP": "None"}, object{
				"type":                  "LoadBalancer",
				"externalTrafficPolicy": "Local",
			},
			object{"type": "NodePort", "clusterIP": nil, "clusterIPs": nil}, object{
				"type":      "ClusterIP",
				"clusterIP": "", "clusterIPs": nil,
			},
		)}
	case 3: // of the families
		return object{"spec": g.pick(
			object{"ipFamilyPolicy": "PreferDualStack"}, object{"ipFamilyPolicy": "RequireDualStack"},
			object{"ipFamilyPolicy": "SingleStack"},
			object{"ipFamilyPolicy": "RequireDualStack", "ipFamilies": list{"IPv4", "IPv6"}},
			object{"ipFamilyPolicy": "SingleStack", "ipFamilies": list{"IPv4"}, "clusterIPs": nil},
			object{"ipFamilies": nil},
			object{"ipFamilyPolicy": "SingleStack", "ipFamilies": list{"IPv6"}}, object{"ipFamilyPolicy": nil},
		)}
	default:
		return object{"spec": g.serviceMembers(12, object{})}
	}
}

func serviceStatus(g *generator) object {
	s := object{"loadBalancer": g.pick(
		object{"ingress": list{object{"ip": "192.0.2.1"}}}, object{"ingress": list{object{"hostname": "h"}}}, object{},
		object{"ingress": list{object{"ip": "x"}}}, object{"ingress": list{object{"ip": "192.0.2.1", "ipMode": "Proxy"}}},
		object{"ingress": list{object{"hostname": "192.0.2.1"}}}, object{"ingress": list{object{
			"ip":    "192.0.2.1",
			"ports": list{object{"port": 80, "protocol": "TCP"}},
		}}},
	)}
	g.set(30, s, "conditions", list{object{
		"type": "Ready", "status": "True", "reason": "R", "message": "",
		"lastTransitionTime": "2020-01-01T00:00:00Z",
	}},
		list{object{"type": "", "status": "x"}})
	return s
}

func endpoints(g *generator, _ place) object {
	return object{"subsets": g.pick(
		list{object{"addresses": list{object{"ip": "10.1.0.1"}}, "ports": list{object{"port": 80}}}},
		list{object{"addresses": list{object{"ip": "169.254.0.1"}}}}, list{}, list{object{}},
	)}
}

func endpointsChange(g *generator) object { return endpoints(g, place{}) }
