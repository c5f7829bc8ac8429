package mix

var (
	requests = map[string][]string{ //nolint:gochecknoglobals // a table
		"cpu": {"0", "1m", "100m", "500m", "1", "2", "1.5", "0.0001"}, "memory": {
			"0", "1", "64Mi", "100Mi", "1Gi",
			"1.5Gi", "100m",
		},
		"ephemeral-storage": {"0", "1Mi", "1Gi"},
	}
	seldom = map[string][]string{ //nolint:gochecknoglobals // a table
		"cpu": {"-1", "x", "1e3", "1000000"}, "hugepages-2Mi": {"2Mi", "4Mi", "3Mi"}, "example.com/gpu": {
			"1", "2",
			"1500m",
		},
		"gpu": {"1"}, "pods": {"1"}, "storage": {"1Gi"}, "kubernetes.io/batch-cpu": {"1"},
	}
)

func (g *generator) resources() object {
	of := object{}
	if g.chance(60) {
		of["requests"] = g.amounts(45, requests)
	}
	if g.chance(50) {
		of["limits"] = g.amounts(40, requests)
	}
	if g.chance(10) {
		more := g.amounts(25, seldom)
		for _, key := range sorted(of) {
			of[key] = merged(of[key], more)
		}
	}
	g.set(1, of, "claims", list{object{"name": "x"}})
	return of
}

func merged(a any, b object) object {
	all := object{}
	if a, is := a.(object); is {
		for key, value := range a {
			all[key] = value
		}
	}
	for key, value := range b {
		all[key] = value
	}
	return all
}

func (g *generator) container(name string) object {
	c := object{"name": name, "image": g.text("i", "i:1", "registry/i:latest", "i@sha256:0")}
	g.set(55, c, "resources", g.resources)
	g.set(18, c, "securityContext", g.containerSecurity)
	g.set(8, c, "ports", func() any {
		port := object{"containerPort": g.pick(80, 443, 0, 70000)}
		g.set(30, port, "hostPort", 80, 8080, 70000)
		g.set(30, port, "protocol", "TCP", "UDP", "SCTP", "ICMP")
		g.set(30, port, "name", "http", "http", "UPPER", "x-very-long-name")
		return list{port}
	})
	g.set(6, c, "env", list{object{"name": "A", "value": "b"}}, list{object{"name": "", "value": "b"}}, list{
		object{"name": "N", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.name"}}},
		object{"name": "L", "valueFrom": object{"resourceFieldRef": object{"resource": "limits.cpu"}}},
		object{"name": "S", "valueFrom": object{"secretKeyRef": object{"name": "se0", "key": "a"}}},
	}, list{object{"name": "A", "value": "b"}, object{"name": "A", "value": "c"}})
	g.set(5, c, "imagePullPolicy", "Always", "Never", "IfNotPresent", "Sometimes")
	g.set(6, c, "volumeMounts", list{object{"name": "v0", "mountPath": "/a"}}, list{object{
		"name":      "none",
		"mountPath": "/a",
	}},
		list{object{"name": "v0", "mountPath": "/a"}, object{"name": "v0", "mountPath": "/a", "subPath": "../x"}})
	g.set(5, c, "livenessProbe", object{"httpGet": object{"port": 80}}, object{
		"exec":          object{"command": list{"a"}},
		"periodSeconds": -1,
	},
		object{})
	g.set(5, c, "resizePolicy", list{object{"resourceName": "cpu", "restartPolicy": "RestartContainer"}},
		list{object{"resourceName": "memory", "restartPolicy": "NotRequired"}}, list{object{
			"resourceName":  "x",
			"restartPolicy": "y",
		}})
	g.set(2, c, "lifecycle", object{"preStop": object{"sleep": object{"seconds": 5}}}, object{"postStart": object{}})
	g.set(2, c, "terminationMessagePolicy", "File", "Other")
	g.set(2, c, "restartPolicy", "Always", "Never")
	return c
}

func (g *generator) containerSecurity() object {
	s := object{}
	g.set(20, s, "privileged", true, false)
	g.set(30, s, "allowPrivilegeEscalation", false, false, true)
	g.set(40, s, "capabilities", object{"drop": list{"ALL"}}, object{"add": list{"NET_ADMIN"}},
		object{"add": list{"NET_BIND_SERVICE"}, "drop": list{"ALL"}})
	g.set(30, s, "runAsNonRoot", true, false)
	g.set(20, s, "runAsUser", 0, 1000, -1)
	g.set(20, s, "seccompProfile", object{"type": "RuntimeDefault"}, object{"type": "Unconfined"},
		object{"type": "Localhost"})
	g.set(8, s, "procMount", "Default", "Unmasked", "x")
	return s
}

func (g *generator) podSecurity() object {
	s := object{}
	g.set(40, s, "runAsNonRoot", true, false)
	g.set(30, s, "seccompProfile", object{"type": "RuntimeDefault"}, object{"type": "Unconfined"})
	g.set(15, s, "runAsUser", 0, 1000, -1)
	g.set(15, s, "fsGroup", 0, 1000, -1)
	g.set(10, s, "sysctls", list{object{"name": "kernel.shm_rmid_forced", "value": "0"}},
		list{object{"name": "net.x", "value": "1"}})
	g.set(10, s, "supplementalGroups", list{1, 2}, list{-1})
	g.set(8, s, "windowsOptions", object{"hostProcess": true}, object{"runAsUserName": "x"})
	return s
}

func (g *generator) volume(name string) object {
	v := object{"name": name}
	switch g.IntN(9) {
	case 0, 1:
		v["emptyDir"] = g.pick(object{}, object{"sizeLimit": "1Gi"}, object{"medium": "Memory"}, object{"sizeLimit": "-1"})
	case 2:
		v["configMap"] = object{"name": g.numbered("cm", 4)}
	case 3:
		v["secret"] = object{"secretName": g.numbered("se", 4)}
	case 4, 5:
		v["persistentVolumeClaim"] = object{"claimName": g.numbered("pvc", 4)}
	case 6:
		v["hostPath"] = object{"path": g.text("/a", "/a/../b", "")}
	case 7:
		v["projected"] = object{"sources": list{object{"serviceAccountToken": object{
			"path":              "t",
			"expirationSeconds": g.pick(3600, 1),
		}}}}
	case 8:
		v["ephemeral"] = object{"volumeClaimTemplate": object{"spec": claim(g, place{})["spec"]}}
	}
	return v
}

// pod is one; half of them need nothing that is missing.
func pod(g *generator, _ place) object {
	spec := object{"containers": g.some(2, func(i int) any { return g.container(string(rune('c' + i))) })}
	g.set(50, spec, "securityContext", g.podSecurity)
	if g.chance(30) { // what is restricted
		spec["securityContext"] = object{"runAsNonRoot": true, "seccompProfile": object{"type": "RuntimeDefault"}}
		for _, c := range spec["containers"].(list) { //nolint:forcetypeassert // it was made above
			c.(object)["securityContext"] = object{ //nolint:forcetypeassert // it was made above
				"allowPrivilegeEscalation": false, "capabilities": object{"drop": list{"ALL"}},
			}
		}
	}
	g.set(14, spec, "initContainers", func() any {
		return g.some(2, func(i int) any {
			c := g.container("i" + string(rune('a'+i)))
			g.set(40, c, "restartPolicy", "Always", "Always", "OnFailure")
			return c
		})
	})
	g.set(25, spec, "volumes", func() any { return g.some(2, func(i int) any { return g.volume(numberedName("v", i)) }) })
	g.set(12, spec, "priorityClassName", "$ns-pc0", "$ns-pc1", "$ns-pc2", "system-node-critical", "none", "")
	g.set(3, spec, "priority", 0, 10, 100000)
	g.set(3, spec, "preemptionPolicy", "Never", "PreemptLowerPriority")
	g.set(8, spec, "runtimeClassName", "$ns-rt0", "$ns-rt1", "$ns-rt2", "none", "")
	g.set(2, spec, "overhead", object{"cpu": "10m"}, object{"memory": "1Mi"})
	g.set(12, spec, "serviceAccountName", "default", "sa0", "sa1", "none")
	g.set(8, spec, "automountServiceAccountToken", false, false, true)
	g.set(15, spec, "nodeName", "$ns-node0", "$ns-node1", "none")
	g.set(5, spec, "nodeSelector", object{"a": "b"}, object{"bad key!": "b"})
	g.set(8, spec, "tolerations", g.tolerations)
	g.set(10, spec, "activeDeadlineSeconds", 60, 1, 0, -1)
	g.set(8, spec, "terminationGracePeriodSeconds", 0, 1, 30, -1)
	g.set(8, spec, "restartPolicy", "Always", "OnFailure", "Never", "x")
	g.set(6, spec, "affinity", g.affinity)
	g.set(5, spec, "hostNetwork", true)
	g.set(4, spec, "hostUsers", false)
	g.set(3, spec, "hostPID", true)
	g.set(5, spec, "schedulingGates", list{object{"name": "a"}}, list{object{"name": "a"}, object{"name": "b"}},
		list{object{"name": ""}})
	g.set(8, spec, "resources", func() any {
		r := object{"requests": g.amounts(60, map[string][]string{"cpu": requests["cpu"], "memory": requests["memory"]})}
		g.set(40, r, "limits", object{"cpu": "2"}, object{"memory": "2Gi"}, object{"cpu": "1m"},
			object{"ephemeral-storage": "1Gi"})
		return r
	})
	g.set(2, spec, "ephemeralContainers", list{object{"name": "e", "image": "i"}})
	g.set(3, spec, "readinessGates", list{object{"conditionType": "example.com/x"}}, list{object{"conditionType": "x y"}})
	g.set(3, spec, "topologySpreadConstraints", list{object{
		"maxSkew": 1, "topologyKey": "zone",
		"whenUnsatisfiable": "DoNotSchedule",
	}},
		list{object{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x"}})
	g.set(3, spec, "dnsPolicy", "None", "Default", "ClusterFirst", "x")
	g.set(2, spec, "hostname", "h", "H")
	g.set(2, spec, "schedulerName", "other", "x y")
	g.set(3, spec, "resourceClaims", list{object{"name": "x", "resourceClaimName": "rc"}})
	g.set(2, spec, "imagePullSecrets", list{object{"name": "se0"}}, list{object{"name": ""}})
	g.set(2, spec, "os", object{"name": "linux"}, object{"name": "x"})
	g.set(2, spec, "enableServiceLinks", false)
	o := object{"spec": spec, "metadata": object{}}
	g.set(60, o["metadata"].(object), "labels", object{"a": "b"},
		object{"a": "c"}) //nolint:forcetypeassert // it was made above
	g.set(3, o, "status", object{"phase": "Running"})
	return o
}

func numberedName(what string, i int) string { return what + string(rune('0'+i)) }

func (g *generator) tolerations() list {
	return g.some(2, func(int) any {
		t := object{}
		g.set(70, t, "key", "a", "node.kubernetes.io/not-ready", "node.kubernetes.io/memory-pressure", "bad key!")
		g.set(60, t, "operator", "Exists", "Equal", "Gt", "x")
		g.set(30, t, "value", "b", "1")
		g.set(60, t, "effect", "NoExecute", "NoSchedule", "PreferNoSchedule", "x")
		g.set(25, t, "tolerationSeconds", 0, 60, -1)
		return t
	})
}

func (g *generator) affinity() object {
	term := object{"topologyKey": g.text("zone", "kubernetes.io/hostname", "")}
	g.set(40, term, "namespaces", list{"$ns-1"}, list{})
	g.set(30, term, "namespaceSelector", object{}, object{"matchLabels": object{"a": "b"}})
	g.set(60, term, "labelSelector", object{}, object{"matchLabels": object{"a": "b"}})
	g.set(10, term, "matchLabelKeys", list{"a"}, list{"b c"})
	return object{g.text("podAffinity", "podAntiAffinity"): object{"requiredDuringSchedulingIgnoredDuringExecution": list{term}}}
}

func podChange(g *generator) object {
	return object{"spec": g.pick(
		object{"activeDeadlineSeconds": g.pick(10, 60, 100, 0, nil)},
		object{"tolerations": g.tolerations()}, object{"tolerations": nil},
		object{"terminationGracePeriodSeconds": g.pick(1, 30, -1)},
		object{"containers": list{object{"name": "c", "image": g.text("i:2", "", " i")}}},
		object{"containers": list{object{"name": "c", "image": "i", "resources": g.resources()}}},
		object{"initContainers": list{object{"name": "ia", "image": "i:3"}}},
		object{"schedulingGates": nil}, object{"schedulingGates": list{object{"name": "a"}}},
		object{"nodeSelector": object{"a": "b"}}, object{"nodeName": "$ns-node0"}, object{"priority": 5},
		object{"priorityClassName": "$ns-pc0"}, object{"serviceAccountName": "sa0"}, object{"hostNetwork": true},
		object{"resources": object{"requests": object{"cpu": "1"}}}, object{"restartPolicy": "Never"},
		object{"affinity": g.affinity()}, object{"overhead": object{"cpu": "1m"}},
		object{"ephemeralContainers": list{object{"name": "e", "image": "i"}}}, object{"nodeName": nil},
	)}
}

func podStatus(g *generator) object {
	s := object{}
	g.set(50, s, "phase", "Running", "Succeeded", "Failed", "Pending", "Unknown", "x", "")
	g.set(40, s, "conditions", list{object{"type": "Ready", "status": "True"}}, list{object{
		"type":   "Ready",
		"status": "False",
	}},
		list{object{"type": "DisruptionTarget", "status": "True"}}, list{object{
			"type":   "PodReadyToStartContainers",
			"status": "x",
		}},
		list{object{"type": "Ready", "status": "True", "observedGeneration": 1}, object{"type": "Ready", "status": "True"}})
	g.set(15, s, "podIPs", list{object{"ip": "10.1.0.1"}}, list{object{"ip": "10.1.0.1"}, object{"ip": "fd01::1"}},
		list{object{"ip": "x"}},
		list{object{"ip": "10.1.0.1"}, object{"ip": "10.1.0.2"}})
	g.set(10, s, "podIP", "10.1.0.1", "10.1.0.2")
	g.set(10, s, "qosClass", "BestEffort", "Guaranteed", "Burstable", "x")
	g.set(10, s, "nominatedNodeName", "$ns-node0", "$ns-node1", "x y")
	g.set(20, s, "containerStatuses", func() any {
		c := object{
			"name": g.text("c", "c", "d", "x"), "image": "i", "imageID": "", "ready": g.pick(true, false),
			"restartCount": g.pick(0, 1, -1),
			"state": g.pick(object{"running": object{}}, object{"terminated": object{"exitCode": g.pick(0, 1)}},
				object{"waiting": object{}}),
		}
		g.set(40, c, "resources", g.resources)
		g.set(40, c, "allocatedResources", object{"cpu": "1"})
		return list{c}
	})
	g.set(5, s, "resize", "InProgress", "Deferred", "")
	g.set(5, s, "observedGeneration", 1, 2, -1)
	g.set(5, s, "hostIP", "10.2.0.1", "x")
	return s
}

func resize(g *generator, at place) {
	spec := object{"containers": list{object{"name": g.text("c", "c", "c", "d", "x"), "resources": g.resources()}}}
	g.set(10, spec, "activeDeadlineSeconds", 5)
	g.set(10, spec, "resources", object{"requests": object{"cpu": "1"}}, object{"limits": object{"memory": "3Gi"}})
	g.set(5, spec, "initContainers", list{object{"name": "ia", "resources": object{"requests": object{"cpu": "1"}}}})
	dry := g.chance(10)
	g.write(at, at.of("PATCH", "resize"), dry, request("PATCH", at.path()+"/resize"+g.query(dry), object{"spec": spec},
		"Content-Type: "+g.text(strategicType, strategicType, strategicType, mergeType)))
}

func debug(g *generator, at place) {
	e := object{"name": g.text("e0", "e1", "c", ""), "image": g.text("i", "i", "")}
	g.set(25, e, "securityContext", g.containerSecurity)
	g.set(15, e, "targetContainerName", "c", "none")
	g.set(5, e, "resources", object{"requests": object{"cpu": "1"}})
	g.set(5, e, "ports", list{object{"containerPort": 80}})
	g.set(5, e, "livenessProbe", object{"httpGet": object{"port": 80}})
	dry := g.chance(10)
	g.write(at, at.of("PATCH", "ephemeralcontainers"), dry, request("PATCH", at.path()+"/ephemeralcontainers"+g.query(dry),
		object{"spec": object{"ephemeralContainers": list{e}}}, "Content-Type: "+g.text(strategicType, strategicType,
			mergeType)))
}

func evict(g *generator, at place) {
	o := object{
		"apiVersion": g.text("policy/v1", "policy/v1", "policy/v1", "policy/v1beta1"), "kind": "Eviction",
		"metadata": object{"name": g.text(at.name, at.name, at.name, "other", "")},
	}
	g.set(25, o, "deleteOptions", func() any {
		d := object{}
		g.set(50, d, "gracePeriodSeconds", 0, 5, -1)
		g.set(20, d, "dryRun", list{"All"}, list{"x"})
		g.set(20, d, "preconditions", object{"uid": "$uid0"}, object{"resourceVersion": "$rv0"})
		return d
	})
	dry := g.chance(20)
	g.write(at, at.of("POST", "eviction"), dry, request("POST", at.path()+"/eviction"+g.query(dry), o))
}

func bind(g *generator, at place) {
	o := object{
		"metadata": object{"name": g.text(at.name, at.name, at.name, "other")},
		"target": object{"kind": g.text("Node", "Node", "Node", "Other", ""), "name": g.text("$ns-node0",
			"$ns-node1", "none", "")},
	}
	g.set(10, o["metadata"].(object), "annotations", object{"x": "y"}) //nolint:forcetypeassert // it was made above
	g.set(10, o["metadata"].(object), "labels", object{"bound": "y"})  //nolint:forcetypeassert // it was made above
	g.set(10, o["metadata"].(object), "uid", "$uid0")                  //nolint:forcetypeassert // it was made above
	dry := g.chance(10)
	g.write(at, at.of("POST", "binding"), dry, request("POST", at.path()+"/binding"+g.query(dry), o))
}
