package defaults

import (
	"maps"
	"strings"
)

// Defaults as of pkg/apis/core/v1/defaults.go of Kubernetes 1.37. What admission
// plugins add upstream (default service account, tolerations, priority) is not here.

// Pod fills in the defaults of a pod.
func Pod(o tree) {
	spec := made(o, "spec")
	set(spec, "enableServiceLinks", true)
	// These are not defaults of templates.
	if seconds, _ := spec["terminationGracePeriodSeconds"].(int64); seconds < 0 {
		spec["terminationGracePeriodSeconds"] = int64(1)
	}
	for _, list := range []string{"containers", "initContainers"} {
		for c := range items(spec, list) {
			requestLimits(child(c, "resources"))
			if is(spec, "hostNetwork") {
				takeHostPorts(c)
			}
		}
	}
	defaultPodSpec(spec)
	if status := child(o, "status"); status != nil {
		podIPs(status)
	}
}

// takeHostPorts makes the ports of a container in the host's network those of the host.
func takeHostPorts(c tree) {
	for port := range items(c, "ports") {
		set(port, "hostPort", port["containerPort"])
	}
}

// podIPs keeps podIP, which is the old form of podIPs for one of them, equal to the first;
// where the two differ, podIP counts.
func podIPs(status tree) {
	list, _ := status["podIPs"].([]any)
	var first any
	if len(list) > 0 {
		item, _ := list[0].(tree)
		first = item["ip"]
	}
	switch ip := text(status, "podIP"); {
	case ip != "" && ip != first:
		status["podIPs"] = []any{tree{"ip": ip}}
	case ip == "":
		set(status, "podIP", first)
	}
}

// PodTemplate fills in the defaults of a PodTemplate.
func PodTemplate(o tree) { podTemplate(child(o, "template")) }

// podTemplate defaults the pod template of a workload.
func podTemplate(template tree) {
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
	// serviceAccount is the old name of serviceAccountName, which counts; both are kept.
	set(spec, "serviceAccountName", spec["serviceAccount"])
	if name := text(spec, "serviceAccountName"); name != "" {
		spec["serviceAccount"] = name
	}
	for v := range items(spec, "volumes") {
		defaultVolumeSource(v)
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for c := range items(spec, list) {
			defaultContainer(c)
		}
	}
}

func defaultContainer(c tree) {
	set(c, "terminationMessagePath", "/dev/termination-log")
	set(c, "terminationMessagePolicy", "File")
	set(c, "imagePullPolicy", pullPolicy(text(c, "image")))
	made(c, "resources")
	for port := range items(c, "ports") {
		set(port, "protocol", "TCP")
	}
	for env := range items(c, "env") {
		set(child(child(env, "valueFrom"), "fieldRef"), "apiVersion", "v1")
		setPointer(child(child(env, "valueFrom"), "fileKeyRef"), "optional", false)
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
	tag := ""
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	if digested || tag != "" && tag != "latest" || !isRepository(name) {
		return "IfNotPresent"
	}
	return "Always"
}

// isRepository reports whether a name can be that of images: without that it has no tag,
// not even latest.
func isRepository(name string) bool {
	const longest = 255 // github.com/distribution/reference NameTotalLengthMax
	host, path, found := strings.Cut(name, "/")
	if !found || !strings.ContainsAny(host, ".:ABCDEFGHIJKLMNOPQRSTUVWXYZ") && host != "localhost" {
		path = name
	}
	return path != "" && len(name) <= longest && strings.Trim(path, "abcdefghijklmnopqrstuvwxyz0123456789._-/") == "" &&
		strings.Trim(path, "._-/") == path
}

func defaultProbe(p tree) {
	if p == nil {
		return
	}
	set(p, "timeoutSeconds", int64(1))
	set(p, "periodSeconds", int64(10))
	set(p, "successThreshold", int64(1))
	set(p, "failureThreshold", int64(3))
	defaultHTTPGet(child(p, "httpGet"))
	setPointer(child(p, "grpc"), "service", "")
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
	if image := child(v, "image"); image != nil {
		set(image, "pullPolicy", pullPolicy(text(image, "reference")))
	}
	storageSource(v)
	claim := child(child(v, "ephemeral"), "volumeClaimTemplate")
	setPointer(child(claim, "spec"), "volumeMode", "Filesystem")
}

// storageSource defaults what volumes of pods and persistent volumes share.
func storageSource(v tree) {
	setPointer(child(v, "hostPath"), "type", "")
	set(child(v, "iscsi"), "iscsiInterface", "default")
	rbd := child(v, "rbd")
	set(rbd, "pool", "rbd")
	set(rbd, "user", "admin")
	set(rbd, "keyring", "/etc/ceph/keyring")
	scale := child(v, "scaleIO")
	set(scale, "storageMode", "ThinProvisioned")
	set(scale, "fsType", "xfs")
	azure := child(v, "azureDisk")
	setPointer(azure, "cachingMode", "ReadWrite")
	setPointer(azure, "fsType", "ext4")
	setPointer(azure, "readOnly", false)
	setPointer(azure, "kind", "Shared")
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
