package mix

func data(g *generator, _ place) object {
	o := object{"data": g.pick(object{"a": "b"}, object{}, object{"bad key!": "x"}, object{"a": "c", "d": ""})}
	g.set(15, o, "immutable", true, false)
	g.set(10, o, "binaryData", object{"e": "AAA="}, object{"a": "AAA="}, object{"e": "!"})
	return o
}

func dataChange(g *generator) object {
	return g.pick(object{"data": object{"a": "c"}}, object{"immutable": true}, //nolint:forcetypeassert // all are objects
		object{"immutable": nil}, object{"data": nil}, object{"binaryData": object{"z": "AAA="}}).(object)
}

func secret(g *generator, _ place) object {
	o := object{}
	g.set(60, o, "stringData", object{"a": "b"}, object{"bad key!": "b"})
	g.set(30, o, "data", object{"a": "AAA="}, object{"a": "!"})
	g.set(40, o, "type", "Opaque", "example.com/x", "kubernetes.io/tls", "kubernetes.io/basic-auth",
		"kubernetes.io/service-account-token")
	g.set(10, o, "immutable", true)
	if o["type"] == "kubernetes.io/service-account-token" {
		o["metadata"] = object{"annotations": object{"kubernetes.io/service-account.name": g.text("default", "sa0",
			"none")}}
	}
	return o
}

func secretChange(g *generator) object {
	return g.pick(object{"stringData": object{"a": "c"}}, object{"type": "other"},
		//nolint:forcetypeassert // all are objects
		object{"immutable": true}, object{"data": nil}).(object)
}

func event(g *generator, at place) object {
	o := object{"involvedObject": object{"kind": "Pod", "name": "p0", "namespace": g.text(at.namespace, at.namespace,
		"", "other")}}
	g.set(60, o, "reason", "R")
	g.set(60, o, "message", "m")
	g.set(60, o, "type", "Normal", "Warning", "x")
	g.set(30, o, "count", 1, 3)
	g.set(20, o, "eventTime", "2020-01-01T00:00:00.000000Z")
	g.set(20, o, "action", "A")
	g.set(20, o, "reportingComponent", "example.com/c")
	g.set(20, o, "reportingInstance", "i")
	return o
}

func eventChange(g *generator) object {
	return g.pick(object{"count": 5}, object{"message": "n"}, object{"reason": "other"},
		//nolint:forcetypeassert // all are objects
		object{"series": object{"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}}).(object)
}

func node(g *generator, _ place) object {
	spec := object{}
	g.set(20, spec, "unschedulable", true)
	g.set(20, spec, "podCIDR", "10.3.0.0/24", "x")
	g.set(20, spec, "taints", list{object{"key": "k", "effect": "NoSchedule"}}, list{object{"key": "k", "effect": "x"}})
	g.set(20, spec, "providerID", "x")
	return object{"spec": spec}
}

func nodeChange(g *generator) object {
	return object{"spec": g.pick(object{"unschedulable": g.pick(true, nil)}, object{"podCIDR": "10.4.0.0/24"},
		object{"providerID": "y"},
		object{"taints": list{object{"key": "k", "value": "v", "effect": "NoExecute"}}}, object{"taints": nil})}
}

func nodeStatus(g *generator) object {
	s := object{}
	g.set(40, s, "capacity", object{"cpu": "4", "memory": "8Gi"}, object{"cpu": "x"}, object{"example.com/gpu": "1500m"})
	g.set(40, s, "conditions", list{object{"type": "Ready", "status": "True"}})
	g.set(20, s, "addresses", list{object{"type": "InternalIP", "address": "10.2.0.1"}})
	return s
}

func podTemplate(g *generator) object {
	spec := object{"containers": list{g.container("c")}}
	g.set(20, spec, "volumes", func() any { return list{g.volume("v0")} })
	g.set(10, spec, "priorityClassName", "none")
	g.set(20, spec, "securityContext", g.podSecurity)
	return object{"metadata": object{"labels": g.pick(object{"a": "b"}, object{"a": "b"}, object{"a": "c"})}, "spec": spec}
}

func controller(g *generator, _ place) object {
	spec := object{"template": podTemplate(g)}
	g.set(60, spec, "selector", object{"a": "b"})
	g.set(60, spec, "replicas", 0, 1, 3, -1)
	return object{"spec": spec}
}

func controllerChange(g *generator) object {
	return object{"spec": g.pick(object{"replicas": g.pick(0, 2, -1, nil)}, object{"minReadySeconds": g.pick(1, -1)},
		object{"selector": object{"a": "x"}}, object{"template": podTemplate(g)})}
}

func controllerStatus(g *generator) object {
	s := object{"replicas": g.pick(0, 1, 3, -1)}
	g.set(40, s, "readyReplicas", 0, 1, 5)
	g.set(40, s, "availableReplicas", 0, 1, 5)
	g.set(40, s, "observedGeneration", 1, 0, -1)
	return s
}

func deployment(g *generator, _ place) object {
	spec := object{"template": podTemplate(g), "selector": g.pick(object{"matchLabels": object{"a": "b"}},
		object{"matchLabels": object{"a": "b"}}, object{})}
	g.set(60, spec, "replicas", 0, 1, 3, -1)
	g.set(20, spec, "strategy", object{"type": "Recreate"}, object{"type": "x"},
		object{"type": "RollingUpdate", "rollingUpdate": object{"maxSurge": "10%", "maxUnavailable": 0}},
		object{"rollingUpdate": object{"maxSurge": 0, "maxUnavailable": 0}})
	g.set(10, spec, "paused", true)
	return object{"spec": spec}
}

func deploymentChange(g *generator) object {
	return object{"spec": g.pick(object{"replicas": g.pick(0, 2, -1, nil)}, object{"paused": g.pick(true, nil)},
		object{"strategy": object{"type": "Recreate"}},
		object{"strategy": object{"type": "Recreate", "rollingUpdate": nil}},
		object{"selector": object{"matchLabels": object{"a": "x"}}},
		object{"template": podTemplate(g)}, object{"progressDeadlineSeconds": g.pick(10, 0, 1000)})}
}

func job(g *generator, _ place) object {
	template := podTemplate(g)
	template["spec"].(object)["restartPolicy"] = g.text("Never", "OnFailure", "Never",
		"Always") //nolint:forcetypeassert // it was made above
	spec := object{"template": template}
	g.set(30, spec, "parallelism", 0, 1, 3, -1)
	g.set(30, spec, "completions", 1, 3, -1)
	g.set(20, spec, "suspend", true, false)
	g.set(20, spec, "backoffLimit", 0, 3, -1)
	g.set(15, spec, "completionMode", "Indexed", "NonIndexed", "x")
	g.set(15, spec, "ttlSecondsAfterFinished", 10, -1)
	g.set(15, spec, "activeDeadlineSeconds", 10, -1)
	return object{"spec": spec}
}

func jobChange(g *generator) object {
	return object{"spec": g.pick(object{"parallelism": g.pick(0, 2, -1)}, object{"suspend": g.pick(true, false)},
		object{"completions": 5},
		object{"backoffLimit": 4}, object{"template": podTemplate(g)}, object{"ttlSecondsAfterFinished": 100})}
}

func ingressClass(g *generator, _ place) object {
	o := object{"spec": g.pick(object{"controller": "example.com/c"}, object{"controller": "x y"}, object{},
		object{"controller": "example.com/c", "parameters": object{"kind": "X", "name": "x"}},
		object{"controller": "example.com/c", "parameters": object{"kind": "X", "name": "x", "scope": "Namespace"}})}
	g.set(25, o, "metadata", object{"annotations": object{"ingressclass.kubernetes.io/is-default-class": "true"}},
		object{"annotations": object{"ingressclass.kubernetes.io/is-default-class": "false"}})
	return o
}

func ingressClassChange(g *generator) object {
	return g.pick(object{"spec": object{"controller": "other.com/c"}}, //nolint:forcetypeassert // all are objects
		object{"metadata": object{"annotations": object{"ingressclass.kubernetes.io/is-default-class": g.pick("true",
			nil)}}}).(object)
}

func ingress(g *generator, _ place) object {
	backend := func() any {
		return g.pick(object{"service": object{"name": "s0", "port": object{"number": 80}}},
			object{"service": object{"name": "s0", "port": object{"name": "p0"}}},
			object{"service": object{"name": "s0", "port": object{}}}, object{"resource": object{
				"kind": "X",
				"name": "x",
			}}, object{})
	}
	spec := object{}
	g.set(50, spec, "defaultBackend", backend)
	g.set(60, spec, "rules", func() any {
		path := object{"backend": backend(), "pathType": g.pick("Prefix", "Exact", "ImplementationSpecific", "x", nil)}
		g.set(80, path, "path", "/", "/a", "a", "/a//b")
		rule := object{"http": object{"paths": list{path}}}
		g.set(50, rule, "host", "a.example.com", "*.example.com", "10.0.0.1", "x y")
		return list{rule}
	})
	g.set(25, spec, "ingressClassName", "$ns-ic0", "none", "x y")
	g.set(15, spec, "tls", list{object{"hosts": list{"a.example.com"}, "secretName": "se0"}},
		list{object{"hosts": list{"x y"}}})
	o := object{"spec": spec}
	g.set(8, o, "metadata", object{"annotations": object{"kubernetes.io/ingress.class": "$ns-ic0"}})
	return o
}

func ingressChange(g *generator) object {
	return object{"spec": g.pick(object{"ingressClassName": g.pick("$ns-ic1", nil)}, object{"defaultBackend": nil},
		object{"rules": nil},
		object{"defaultBackend": object{"service": object{"name": "s1", "port": object{"number": 81}}}})}
}

func ingressStatus(g *generator) object {
	return object{"loadBalancer": g.pick(object{}, object{"ingress": list{object{"ip": "192.0.2.1"}}},
		object{"ingress": list{object{"ip": "x"}}},
		object{"ingress": list{object{"hostname": "h", "ports": list{object{"port": 80, "protocol": "TCP"}}}}})}
}

func networkPolicy(g *generator, _ place) object {
	return object{"spec": g.pick(object{"podSelector": object{}}, object{
		"podSelector": object{},
		"policyTypes": list{"Egress"},
	},
		object{"podSelector": object{}, "ingress": list{object{
			"from": list{object{"ipBlock": object{"cidr": "10.0.0.0/8", "except": list{"11.0.0.0/9"}}}},
		}}},
		object{"podSelector": object{}, "ingress": list{object{"ports": list{object{"port": 80, "endPort": 70}}}}},
		object{"policyTypes": list{"x"}})}
}

func networkPolicyChange(g *generator) object { return networkPolicy(g, place{}) }

func budget(g *generator, _ place) object {
	spec := object{"selector": g.pick(object{"matchLabels": object{"a": "b"}},
		object{"matchLabels": object{"a": "b"}}, object{}, nil)}
	g.set(60, spec, "minAvailable", 1, 0, "50%", "x", -1)
	g.set(40, spec, "maxUnavailable", 1, 0, "50%")
	g.set(20, spec, "unhealthyPodEvictionPolicy", "AlwaysAllow", "IfHealthyBudget", "x")
	return object{"spec": spec}
}

func budgetChange(g *generator) object {
	return object{"spec": g.pick(object{"minAvailable": g.pick(2, nil)}, object{"maxUnavailable": g.pick(2, nil)},
		object{"selector": object{"matchLabels": object{"a": "c"}}})}
}

func budgetStatus(g *generator) object {
	return object{
		"observedGeneration": g.pick(0, 1, 2), "disruptionsAllowed": g.pick(0, 1, 1, 2, -1),
		"currentHealthy": g.pick(0, 1, 3),
		"desiredHealthy": g.pick(0, 1), "expectedPods": g.pick(1, 3),
	}
}

func lease(g *generator, _ place) object {
	spec := object{}
	g.set(70, spec, "holderIdentity", "a", "b", "")
	g.set(50, spec, "leaseDurationSeconds", 10, 0, -1)
	g.set(30, spec, "renewTime", "2020-01-01T00:00:00.000000Z", "x")
	g.set(30, spec, "leaseTransitions", 0, 1, -1)
	g.set(10, spec, "strategy", "OldestEmulationVersion", "x")
	g.set(10, spec, "preferredHolder", "a", "")
	return object{"spec": spec}
}

func leaseChange(g *generator) object { return lease(g, place{}) }

func (g *generator) rules() list {
	return g.some(2, func(int) any {
		return g.pick(object{"apiGroups": list{""}, "resources": list{"pods"}, "verbs": list{"get"}},
			object{"apiGroups": list{"*"}, "resources": list{"*"}, "verbs": list{"*"}},
			object{"verbs": list{}}, object{"nonResourceURLs": list{"/x"}, "verbs": list{"get"}},
			object{"resources": list{"pods"}, "verbs": list{"get"}},
			object{"apiGroups": list{""}, "resources": list{"pods"}, "verbs": list{"get"}, "resourceNames": list{"a"}})
	})
}

func role(g *generator, _ place) object { return object{"rules": g.rules()} }

func clusterRole(g *generator, _ place) object {
	o := object{"rules": g.rules()}
	g.set(20, o, "aggregationRule", object{"clusterRoleSelectors": list{object{"matchLabels": object{"a": "b"}}}},
		object{"clusterRoleSelectors": list{}})
	return o
}

func roleChange(g *generator) object { return object{"rules": g.pick(g.rules(), nil)} }

func binding(g *generator, _ place) object {
	return object{
		"roleRef": object{
			"apiGroup": g.text("rbac.authorization.k8s.io", "rbac.authorization.k8s.io", "", "x"),
			"kind":     g.text("ClusterRole", "Role", "x"), "name": g.text("view", "$ns-cr0", "ro0", ""),
		},
		"subjects": g.pick(list{object{"kind": "User", "name": "u"}}, list{object{"kind": "ServiceAccount", "name": "sa0"}},
			list{object{"kind": "ServiceAccount", "name": "sa0", "namespace": "$ns-0"}}, list{},
			list{object{"kind": "x", "name": ""}}),
	}
}

func bindingChange(g *generator) object {
	return g.pick(object{"subjects": list{object{"kind": "Group", "name": "g"}}}, object{"subjects": nil},
		//nolint:forcetypeassert // all are objects
		object{"roleRef": object{"name": "edit"}}).(object)
}
