package mix

import "fmt"

var counted = map[string][]string{ //nolint:gochecknoglobals // a table
	"pods": {"0", "1", "3", "10"}, "requests.cpu": {"1", "2", "100m", "10"}, "limits.memory": {"1Gi", "100Mi", "10Gi"},
	"requests.memory": {"1Gi", "3Gi"}, "cpu": {"2", "3"}, "limits.cpu": {"2", "4"}, "services": {"1", "3"},
	"services.nodeports": {"0", "1", "4"}, "services.loadbalancers": {"0", "1"}, "persistentvolumeclaims": {"0", "2"},
	"requests.storage": {"1Gi", "3Gi"}, "$ns-sc0.storageclass.storage.k8s.io/requests.storage": {"1Gi", "2Gi"},
	"$ns-sc1.storageclass.storage.k8s.io/persistentvolumeclaims": {"0", "1"}, "count/pods": {"1", "5"},
	"count/services":         {"2"},
	"count/deployments.apps": {"1"}, "count/leases.coordination.k8s.io": {"0", "1"}, "configmaps": {"1", "2"},
	"secrets":          {"1"},
	"count/jobs.batch": {"1"}, "requests.example.com/gpu": {"1", "2"}, "requests.ephemeral-storage": {"1Gi"},
	"resourcequotas":         {"1", "3"},
	"replicationcontrollers": {"1"}, "memory": {"1Gi"}, "requests.hugepages-2Mi": {"4Mi"},
	"count/ingresses.networking.k8s.io": {"1"},
	"count/limitranges":                 {"1"}, "count/serviceaccounts": {"2"}, "count/events": {"1"},
	"count/roles.rbac.authorization.k8s.io": {"1"},
}

var odd = map[string][]string{ //nolint:gochecknoglobals // a table
	"bogus": {"1"}, "pods": {"-1", "1500m"}, "limits.example.com/gpu": {"1"}, "count/": {"1"}, "services": {"x"},
	"bad key!": {"1"},
}

func quota(g *generator, _ place) object {
	hard := g.amounts(9, counted)
	if g.chance(8) {
		hard = merged(hard, g.amounts(25, odd))
	}
	spec := object{"hard": hard}
	g.set(15, spec, "scopes", list{"BestEffort"}, list{"NotBestEffort"}, list{"Terminating"}, list{"NotTerminating"},
		list{"Terminating", "NotTerminating"}, list{"CrossNamespacePodAffinity"}, list{"x"}, list{"PriorityClass"})
	if g.chance(30) {
		if _, has := spec["scopes"]; has { // counts of others are refused with a scope
			spec["hard"] = g.amounts(50, map[string][]string{
				"pods": counted["pods"], "requests.cpu": {"1"},
				"limits.memory": {"1Gi"},
			})
		}
	}
	g.set(12, spec, "scopeSelector", func() any {
		e := object{
			"scopeName": g.text("PriorityClass", "PriorityClass", "BestEffort", "Terminating",
				"VolumeAttributesClass", "x"),
			"operator": g.text("In", "NotIn", "Exists", "DoesNotExist", "x"),
		}
		g.set(60, e, "values", list{"$ns-pc0"}, list{"$ns-pc1", "system-node-critical"}, list{""})
		return object{"matchExpressions": list{e}}
	})
	if g.chance(3) {
		return object{"spec": spec, "status": object{"hard": hard}}
	}
	return object{"spec": spec}
}

// quotaCounted writes the status, as the controller would, which runs beside neither server.
func quotaCounted(g *generator, at place, created object) []string {
	if g.chance(10) {
		return nil
	}
	spec, _ := created["spec"].(object)
	hard, _ := spec["hard"].(object)
	used := object{}
	for _, name := range sorted(hard) {
		if g.chance(90) {
			used[name] = g.text("0", "0", "0", "1")
		}
	}
	return request("PATCH", at.path()+"/status", object{"status": object{"hard": hard, "used": used}},
		"Content-Type: "+mergeType)
}

func quotaChange(g *generator) object {
	return object{"spec": g.pick(object{"hard": g.amounts(12, counted)}, object{"hard": g.amounts(20, odd)},
		object{"scopes": list{"Terminating"}}, object{"hard": object{"pods": nil}}, object{"hard": object{"pods": "2"}},
		object{"scopeSelector": object{"matchExpressions": list{object{
			"scopeName": "PriorityClass",
			"operator":  "Exists",
		}}}})}
}

func quotaStatus(g *generator) object {
	s := object{}
	g.set(60, s, "hard", func() any { return g.amounts(12, counted) })
	g.set(70, s, "used", func() any {
		used := object{}
		for _, name := range sorted(counted) {
			g.set(12, used, name, "0", "1", "-1", "2")
		}
		return used
	})
	return s
}

func limits(g *generator, _ place) object {
	return object{"spec": object{"limits": g.some(2, func(int) any { return g.limit() })}}
}

func (g *generator) limit() object {
	l := object{"type": g.text("Container", "Container", "Container", "Pod", "PersistentVolumeClaim", "example.com/x", "x")}
	few := map[string][]string{
		"cpu": {"100m", "500m", "1", "2"}, "memory": {"64Mi", "1Gi", "2Gi"},
		"ephemeral-storage": {"1Gi"},
	}
	if l["type"] == "PersistentVolumeClaim" {
		few = map[string][]string{"storage": {"1Gi", "2Gi"}}
	}
	g.set(30, l, "max", func() any { return g.amounts(50, few) })
	g.set(30, l, "min", func() any { return g.amounts(40, few) })
	if l["type"] != "Pod" || g.chance(5) {
		g.set(40, l, "default", func() any { return g.amounts(50, few) })
		g.set(40, l, "defaultRequest", func() any { return g.amounts(50, few) })
	}
	g.set(15, l, "maxLimitRequestRatio", object{"cpu": "2"}, object{"memory": "1500m"}, object{"cpu": "500m"})
	return l
}

func limitsChange(g *generator) object {
	return object{"spec": g.pick(object{"limits": list{g.limit()}}, object{"limits": list{g.limit(), g.limit()}},
		object{"limits": nil})}
}

func priorityClass(g *generator, at place) object {
	o := object{"value": g.pick(0, 10, 100, -5, 1000000000, 1000000001, 2000000000, nil)}
	g.set(20, o, "globalDefault", true, false)
	g.set(20, o, "preemptionPolicy", "Never", "PreemptLowerPriority", "x")
	g.set(10, o, "description", "d")
	return o
}

func priorityClassChange(g *generator) object {
	return g.pick(object{"value": 11}, object{"globalDefault": g.pick(true, false)},
		//nolint:forcetypeassert // all are objects
		object{"preemptionPolicy": "Never"}, object{"description": "e"}).(object)
}

func runtimeClass(g *generator, _ place) object {
	o := object{"handler": g.text("h", "h", "UPPER", "")}
	g.set(40, o, "overhead", object{"podFixed": object{"cpu": "10m"}}, object{"podFixed": object{
		"cpu":    "10m",
		"memory": "5Mi",
	}},
		object{"podFixed": object{"cpu": "-1"}}, object{})
	g.set(40, o, "scheduling", object{"nodeSelector": object{"a": "b"}}, object{"nodeSelector": object{"a": "c"}},
		object{"tolerations": list{object{"key": "k", "operator": "Exists"}}},
		object{"nodeSelector": object{"bad key!": "c"}},
		object{"tolerations": list{object{"key": "k", "operator": "x"}}})
	return o
}

func runtimeClassChange(g *generator) object {
	return g.pick(object{"handler": "other"}, object{"overhead": object{"podFixed": object{"cpu": "20m"}}},
		//nolint:forcetypeassert // all are objects
		object{"overhead": nil}, object{"scheduling": object{"nodeSelector": object{"a": "d"}}}).(object)
}

func (g *generator) podSecurityLabels() object {
	level := func() any {
		return g.pick("privileged", "baseline", "restricted", "restricted", "x", nil, "")
	}
	return object{
		"pod-security.kubernetes.io/" + g.text("enforce", "enforce", "warn", "audit"): level(),
		"pod-security.kubernetes.io/" + g.text("enforce-version", "warn-version"): g.pick("latest", "v1.24",
			"v1.99", "x", nil),
	}
}

func anotherNamespace(g *generator, _ place) object {
	o := object{"metadata": object{"labels": g.podSecurityLabels()}}
	g.set(10, o, "spec", object{"finalizers": list{"example.com/x"}}, object{"finalizers": list{"x"}},
		object{"finalizers": list{}})
	return o
}

func namespaceChange(g *generator) object {
	tolerations := func(kind string) any {
		value := g.pick(`[{"key":"t","operator":"Exists"}]`, "bad", nil)
		return object{"annotations": object{"scheduler.alpha.kubernetes.io/" + kind: value}}
	}
	return object{"metadata": g.pick(
		object{"labels": g.podSecurityLabels()}, object{"labels": object{"kubernetes.io/metadata.name": "x"}},
		object{"annotations": object{"scheduler.alpha.kubernetes.io/node-selector": g.pick("a=b", "a=c", "bad", nil)}},
		tolerations("defaultTolerations"), tolerations("tolerationsWhitelist"),
	)}
}

// relabel changes one of the namespaces of the mix.
func relabel(g *generator, at place) {
	at.name = namespace(1 + g.IntN(namespaces-1))
	dry := g.chance(10)
	g.write(at, at.of("PATCH"), dry, request("PATCH", at.path()+g.query(dry), namespaceChange(g),
		"Content-Type: "+mergeType))
}

func finalize(g *generator, at place) {
	body := object{"metadata": object{"name": at.name}, "spec": object{"finalizers": g.pick(list{}, list{},
		list{"kubernetes"}, list{"example.com/y"})}}
	g.write(at, at.of("PUT", "finalize"), false, request("PUT", at.path()+"/finalize", body))
}

func account(g *generator, _ place) object {
	o := object{}
	g.set(30, o, "automountServiceAccountToken", false, true)
	g.set(20, o, "imagePullSecrets", list{object{"name": "se0"}}, list{object{"name": ""}})
	g.set(20, o, "secrets", list{object{"name": "se1"}})
	g.set(15, o, "metadata", object{"annotations": object{"kubernetes.io/enforce-mountable-secrets": "true"}})
	return o
}

func accountChange(g *generator) object { return account(g, place{}) }

func tokens(g *generator, at place) {
	spec := object{}
	g.set(50, spec, "expirationSeconds", 600, 3600, 1, 1<<33)
	g.set(30, spec, "audiences", list{"a"}, list{})
	g.set(30, spec, "boundObjectRef", object{"kind": "Secret", "apiVersion": "v1", "name": "se0"},
		object{"kind": "Pod", "apiVersion": "v1", "name": fmt.Sprintf("p%d", g.IntN(4))}, object{
			"kind":       "x",
			"apiVersion": "v1", "name": "x",
		})
	g.add(at.of("POST", "token"), request("POST", at.path()+"/token", object{"spec": spec})...)
}
