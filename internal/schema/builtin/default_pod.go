package builtin

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Defaults as of pkg/apis/core/v1/defaults.go of Kubernetes 1.37. What admission
// plugins add upstream (default service account, tolerations, priority) is not here.

func defaultPod(o tree) {
	spec := made(o, "spec")
	set(spec, "enableServiceLinks", true)
	for _, list := range []string{"containers", "initContainers"} {
		for c := range items(spec, list) {
			requestLimits(child(c, "resources"))
		}
	}
	defaultPodSpec(spec)
	status := made(o, "status")
	set(status, "phase", "Pending")
	set(status, "qosClass", serviceQuality(spec))
}

// requestLimits makes a limit without a request a request.
func requestLimits(resources tree) {
	limits := child(resources, "limits")
	if len(limits) == 0 {
		return
	}
	requests := made(resources, "requests")
	for name, quantity := range limits {
		set(requests, name, quantity)
	}
}

// serviceQuality is the class by which a node evicts: Guaranteed when every
// container's limits of cpu and memory are set and equal its requests, BestEffort
// when no container has any, else Burstable.
func serviceQuality(spec tree) string {
	requested, guaranteed := false, true
	for _, list := range []string{"containers", "initContainers"} {
		for c := range items(spec, list) {
			resources := child(c, "resources")
			limits, requests := child(resources, "limits"), child(resources, "requests")
			for _, name := range []string{"cpu", "memory"} {
				limit, request := amount(limits, name), amount(requests, name)
				if !limit.IsZero() || !request.IsZero() {
					requested = true
				}
				if limit.IsZero() || limit.Cmp(request) != 0 {
					guaranteed = false
				}
			}
		}
	}
	switch {
	case !requested:
		return "BestEffort"
	case guaranteed:
		return "Guaranteed"
	default:
		return "Burstable"
	}
}

func amount(resources tree, name string) resource.Quantity {
	q, err := resource.ParseQuantity(text(resources, name))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// defaultPodTemplate defaults the pod template of a workload.
func defaultPodTemplate(template tree) {
	if template != nil {
		defaultPodSpec(made(template, "spec"))
	}
}

func defaultPodSpec(spec tree) {
	if spec == nil {
		return
	}
	set(spec, "restartPolicy", "Always")
	set(spec, "terminationGracePeriodSeconds", int64(30))
	set(spec, "dnsPolicy", "ClusterFirst")
	set(spec, "schedulerName", "default-scheduler")
	made(spec, "securityContext")
	// serviceAccount is the old name of serviceAccountName; both are kept.
	set(spec, "serviceAccountName", spec["serviceAccount"])
	set(spec, "serviceAccount", spec["serviceAccountName"])
	for v := range items(spec, "volumes") {
		defaultVolumeSource(v)
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for c := range items(spec, list) {
			defaultContainer(c, is(spec, "hostNetwork"))
		}
	}
}

func defaultContainer(c tree, hostNetwork bool) {
	set(c, "terminationMessagePath", "/dev/termination-log")
	set(c, "terminationMessagePolicy", "File")
	set(c, "imagePullPolicy", pullPolicy(text(c, "image")))
	made(c, "resources")
	for port := range items(c, "ports") {
		set(port, "protocol", "TCP")
		if hostNetwork {
			set(port, "hostPort", port["containerPort"])
		}
	}
	for env := range items(c, "env") {
		set(child(child(env, "valueFrom"), "fieldRef"), "apiVersion", "v1")
	}
	for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		defaultProbe(child(c, name))
	}
	lifecycle := child(c, "lifecycle")
	for _, name := range []string{"postStart", "preStop"} {
		defaultHTTPGet(child(child(lifecycle, name), "httpGet"))
	}
}

// pullPolicy is Always for an image without a tag or with the tag latest.
func pullPolicy(image string) string {
	name, _, digested := strings.Cut(image, "@")
	if digested {
		return "IfNotPresent"
	}
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		tag = name[i+1:]
	}
	if tag == "" || tag == "latest" {
		return "Always"
	}
	return "IfNotPresent"
}

func defaultProbe(p tree) {
	if p == nil {
		return
	}
	for key, value := range map[string]int64{"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3} {
		set(p, key, value)
	}
	defaultHTTPGet(child(p, "httpGet"))
	if grpc := child(p, "grpc"); grpc != nil && grpc["service"] == nil {
		grpc["service"] = ""
	}
}

func defaultHTTPGet(get tree) {
	set(get, "path", "/")
	set(get, "scheme", "HTTP")
}

func defaultVolumeSource(v tree) {
	if len(v) == 1 && v["name"] != nil {
		v["emptyDir"] = tree{}
	}
	const mode = int64(0o644)
	for _, source := range []string{"secret", "configMap", "downwardAPI", "projected"} {
		set(child(v, source), "defaultMode", mode)
	}
	defaultFieldRefs(child(v, "downwardAPI"))
	for source := range items(child(v, "projected"), "sources") {
		set(child(source, "serviceAccountToken"), "expirationSeconds", int64(3600))
		defaultFieldRefs(child(source, "downwardAPI"))
	}
	if host := child(v, "hostPath"); host != nil && host["type"] == nil {
		host["type"] = ""
	}
	if image := child(v, "image"); image != nil {
		set(image, "pullPolicy", pullPolicy(text(image, "reference")))
	}
	set(child(v, "iscsi"), "iscsiInterface", "default")
	if rbd := child(v, "rbd"); rbd != nil {
		for key, value := range map[string]string{"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"} {
			set(rbd, key, value)
		}
	}
	if disk := child(v, "azureDisk"); disk != nil {
		for key, value := range map[string]any{"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": false, "kind": "Shared"} {
			set(disk, key, value)
		}
	}
	claim := child(child(v, "ephemeral"), "volumeClaimTemplate")
	set(child(claim, "spec"), "volumeMode", "Filesystem")
}

func defaultFieldRefs(downward tree) {
	for item := range items(downward, "items") {
		set(child(item, "fieldRef"), "apiVersion", "v1")
	}
}

// templateLabels copies the labels of a workload's pod template.
func templateLabels(o tree) tree {
	template := child(child(o, "spec"), "template")
	return maps.Clone(child(child(template, "metadata"), "labels"))
}
