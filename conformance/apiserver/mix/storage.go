package mix

func sizes() []any { return []any{"1Gi", "2Gi", "3Gi", "500Mi", "1500M", "0", "-1", "1m"} }

func (g *generator) class() string { return g.text("$ns-sc0", "$ns-sc1", "$ns-sc2", "none", "") }

func claim(g *generator, _ place) object {
	need := object{"storage": g.pick(sizes()...)}
	if g.chance(3) {
		need = object{}
	}
	resources := object{"requests": need}
	g.set(10, resources, "limits", object{"storage": "2Gi"}, object{"storage": "1Ki"})
	spec := object{
		"resources": resources,
		"accessModes": g.pick(list{"ReadWriteOnce"}, list{"ReadWriteOnce"}, list{"ReadWriteMany", "ReadOnlyMany"},
			list{"ReadWriteOncePod"},
			list{"ReadWriteOncePod", "ReadWriteOnce"}, list{}, list{"x"}),
	}
	g.set(60, spec, "storageClassName", func() any { return g.class() })
	g.set(12, spec, "volumeName", "$ns-pv0", "$ns-pv1", "none", "x y")
	g.set(8, spec, "volumeMode", "Block", "Filesystem", "x")
	g.set(6, spec, "selector", object{"matchLabels": object{"a": "b"}}, object{"matchLabels": object{"a b": "b"}})
	g.set(6, spec, "dataSource", object{"kind": "PersistentVolumeClaim", "name": "pvc0"}, object{
		"kind": "Other",
		"name": "x",
	},
		object{"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "x"})
	g.set(6, spec, "dataSourceRef", object{"kind": "PersistentVolumeClaim", "name": "pvc0"},
		object{"apiGroup": "example.com", "kind": "X", "name": "x"}, object{
			"kind": "PersistentVolumeClaim",
			"name": "x", "namespace": "other",
		})
	g.set(4, spec, "volumeAttributesClassName", "gold", "", "x y")
	o := object{"spec": spec}
	g.set(4, o, "metadata", object{"annotations": object{"volume.beta.kubernetes.io/storage-class": "$ns-sc0"}})
	return o
}

func claimChange(g *generator) object {
	return object{"spec": g.pick(
		object{"resources": object{"requests": object{"storage": g.pick(sizes()...)}}},
		object{"resources": object{"requests": object{"storage": g.pick(sizes()...)}}},
		object{"resources": object{"limits": object{"storage": "4Gi"}}}, object{"volumeName": g.pick("$ns-pv0",
			"$ns-pv1", nil)},
		object{"storageClassName": g.class()}, object{"accessModes": list{"ReadOnlyMany"}}, object{"volumeMode": "Block"},
		object{"volumeAttributesClassName": g.pick("gold", "silver", nil, "")},
		object{"selector": object{"matchLabels": object{"a": "c"}}},
	)}
}

func claimStatus(g *generator) object {
	s := object{}
	g.set(60, s, "phase", "Bound", "Bound", "Bound", "Pending", "Lost", "x")
	g.set(50, s, "capacity", object{"storage": g.pick(sizes()...)}, object{"storage": "1Gi", "cpu": "1"})
	g.set(20, s, "accessModes", list{"ReadWriteOnce"}, list{"x"})
	g.set(20, s, "conditions", list{object{"type": "Resizing", "status": "True"}}, list{object{"type": "x", "status": ""}})
	g.set(20, s, "allocatedResources", object{"storage": "2Gi"}, object{"cpu": "1"}, object{"example.com/x": "1"})
	g.set(20, s, "allocatedResourceStatuses", object{"storage": "ControllerResizeInProgress"}, object{"storage": "x"})
	g.set(5, s, "currentVolumeAttributesClassName", "gold")
	g.set(5, s, "modifyVolumeStatus", object{"status": "Pending"}, object{"status": "x"})
	return s
}

func volume(g *generator, _ place) object {
	spec := object{"capacity": object{"storage": g.pick(sizes()...)}, "accessModes": g.pick(list{"ReadWriteOnce"},
		list{"ReadWriteMany"},
		list{"ReadWriteOncePod", "ReadWriteOnce"}, list{"x"}, list{})}
	switch g.IntN(8) {
	case 0, 1:
		spec["hostPath"] = object{"path": g.text("/a", "/..", "/")}
	case 2, 3:
		spec["csi"] = object{"driver": g.text("d.example.com", "bad driver"), "volumeHandle": g.text("h", "")}
	case 4:
		spec["nfs"] = object{"server": "s", "path": g.text("/x", "x")}
	case 5:
		spec["local"] = object{"path": "/x"}
	case 6:
		spec["hostPath"], spec["nfs"] = object{"path": "/a"}, object{"server": "s", "path": "/x"}
	}
	g.set(50, spec, "storageClassName", func() any { return g.class() })
	g.set(30, spec, "persistentVolumeReclaimPolicy", "Delete", "Retain", "Recycle", "x")
	g.set(20, spec, "claimRef", object{"namespace": "$ns-0", "name": "pvc0"}, object{"name": "pvc0"})
	g.set(20, spec, "nodeAffinity", func() any { return nodeAffinity(g.text("a", "b", "bad key!")) })
	g.set(8, spec, "volumeMode", "Block", "x")
	g.set(8, spec, "mountOptions", list{"ro"})
	g.set(4, spec, "volumeAttributesClassName", "gold", "")
	return object{"spec": spec}
}

func nodeAffinity(key string) object {
	return object{"required": object{"nodeSelectorTerms": list{object{"matchExpressions": list{
		object{"key": key, "operator": "In", "values": list{"x"}},
	}}}}}
}

func volumeChange(g *generator) object {
	return object{"spec": g.pick(
		object{"capacity": object{"storage": g.pick(sizes()...)}}, object{"claimRef": object{
			"namespace": "$ns-0",
			"name":      "pvc0", "uid": "$uid0",
		}},
		object{"claimRef": nil}, object{"persistentVolumeReclaimPolicy": g.text("Delete", "Retain", "Recycle")},
		object{"storageClassName": g.class()}, object{"nodeAffinity": nodeAffinity("a")}, object{"nodeAffinity": nil},
		object{"hostPath": object{"path": "/b"}}, object{"accessModes": list{"ReadOnlyMany"}},
		object{"mountOptions": list{"rw"}},
		object{"volumeAttributesClassName": "silver"}, object{"csi": object{"volumeHandle": "other"}},
		object{"volumeMode": "Block"},
	)}
}

func volumeStatus(g *generator) object {
	s := object{"phase": g.text("Available", "Bound", "Released", "Failed", "x")}
	g.set(20, s, "message", "m")
	g.set(20, s, "lastPhaseTransitionTime", "2020-01-01T00:00:00Z", nil)
	return s
}

func storageClass(g *generator, _ place) object {
	o := object{"provisioner": g.text("p.example.com", "p.example.com", "kubernetes.io/no-provisioner", "",
		"bad provisioner")}
	g.set(40, o, "allowVolumeExpansion", true, true, false)
	g.set(30, o, "volumeBindingMode", "Immediate", "WaitForFirstConsumer", "x")
	g.set(20, o, "reclaimPolicy", "Retain", "Delete", "Recycle")
	g.set(20, o, "parameters", object{"a": "b"}, object{"": "b"})
	g.set(8, o, "mountOptions", list{"ro"})
	g.set(8, o, "allowedTopologies", list{object{"matchLabelExpressions": list{object{
		"key":    "zone",
		"values": list{"a"},
	}}}},
		list{object{"matchLabelExpressions": list{object{"key": "zone", "values": list{}}}}})
	g.set(25, o, "metadata", func() any {
		return object{"annotations": object{"storageclass.kubernetes.io/is-default-class": g.text("true", "true",
			"false", "x")}}
	})
	return o
}

func storageClassChange(g *generator) object {
	return g.pick( //nolint:forcetypeassert // all are objects
		object{"allowVolumeExpansion": g.pick(true, false, nil)},
		object{"metadata": object{"annotations": object{"storageclass.kubernetes.io/is-default-class": g.pick("true",
			"false", nil)}}},
		object{"provisioner": "q.example.com"}, object{"reclaimPolicy": "Retain"},
		object{"volumeBindingMode": "WaitForFirstConsumer"},
		object{"parameters": object{"a": "c"}}, object{"mountOptions": list{"rw"}},
	).(object)
}

func attachment(g *generator, _ place) object {
	return object{"spec": object{
		"attacher": g.text("d.example.com", ""), "nodeName": g.text("$ns-node0", ""),
		"source": g.pick(object{"persistentVolumeName": "$ns-pv0"}, object{}),
	}}
}

func attachmentChange(g *generator) object {
	return object{"spec": g.pick(object{"attacher": "x"}, object{"nodeName": "$ns-node1"})}
}

func attachmentStatus(g *generator) object {
	s := object{"attached": g.pick(true, false)}
	g.set(30, s, "attachError", object{"message": "m"}, object{"message": "m", "errorCode": 5})
	g.set(30, s, "attachmentMetadata", object{"a": "b"})
	return s
}
