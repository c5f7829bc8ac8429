// Package podspec has what the kinds that are pods, or make pods, share: the defaults of a pod's
// spec, the fields that are behind feature gates, the warnings, the columns of containers, and the
// scale. The specs of claims and volumes are parts of it, since templates have them too.
package podspec

import (
	"strings"

	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Defaults as of pkg/apis/core/v1/defaults.go of Kubernetes 1.37. What admission
// plugins add upstream (default service account, tolerations, priority) is not here.

// DefaultTemplate defaults the pod template of a workload.
func DefaultTemplate(template tree.Object) {
	if template != nil {
		Default(tree.Made(template, "spec"))
	}
}

// Default fills in the defaults of what a pod, or a template of pods, is to be.
func Default(spec tree.Object) {
	if spec == nil {
		return
	}
	tree.Set(spec, "restartPolicy", "Always")
	tree.Set(spec, "terminationGracePeriodSeconds", int64(30))
	tree.Set(spec, "dnsPolicy", "ClusterFirst")
	tree.Set(spec, "schedulerName", "default-scheduler")
	tree.Made(spec, "securityContext")
	// serviceAccount is the old name of serviceAccountName, which counts; both are kept.
	tree.Set(spec, "serviceAccountName", spec["serviceAccount"])
	if name := tree.Text(spec, "serviceAccountName"); name != "" {
		spec["serviceAccount"] = name
	}
	for v := range tree.Items(spec, "volumes") {
		defaultVolumeSource(v)
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for c := range tree.Items(spec, list) {
			defaultContainer(c)
		}
	}
	RoundUp(tree.Child(spec, "overhead"))
	RoundUpBoth(tree.Child(spec, "resources"))
}

func defaultContainer(c tree.Object) {
	tree.Set(c, "terminationMessagePath", "/dev/termination-log")
	tree.Set(c, "terminationMessagePolicy", "File")
	tree.Set(c, "imagePullPolicy", pullPolicy(tree.Text(c, "image")))
	RoundUpBoth(tree.Made(c, "resources"))
	for port := range tree.Items(c, "ports") {
		tree.Set(port, "protocol", "TCP")
	}
	for env := range tree.Items(c, "env") {
		tree.Set(tree.Child(env, "valueFrom", "fieldRef"), "apiVersion", "v1")
		tree.SetPointer(tree.Child(env, "valueFrom", "fileKeyRef"), "optional", false)
	}
	for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		defaultProbe(tree.Child(c, name))
	}
	lifecycle := tree.Child(c, "lifecycle")
	for _, name := range []string{"postStart", "preStop"} {
		defaultHTTPGet(tree.Child(lifecycle, name, "httpGet"))
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

func defaultProbe(p tree.Object) {
	if p == nil {
		return
	}
	tree.Set(p, "timeoutSeconds", int64(1))
	tree.Set(p, "periodSeconds", int64(10))
	tree.Set(p, "successThreshold", int64(1))
	tree.Set(p, "failureThreshold", int64(3))
	defaultHTTPGet(tree.Child(p, "httpGet"))
	tree.SetPointer(tree.Child(p, "grpc"), "service", "")
}

func defaultHTTPGet(get tree.Object) {
	tree.Set(get, "path", "/")
	tree.Set(get, "scheme", "HTTP")
}

func defaultVolumeSource(v tree.Object) {
	if len(v) == 1 && v["name"] != nil {
		v["emptyDir"] = tree.Object{}
	}
	const mode = int64(0o644)
	for _, source := range []string{"secret", "configMap", "downwardAPI", "projected"} {
		tree.Set(tree.Child(v, source), "defaultMode", mode)
	}
	defaultFieldRefs(tree.Child(v, "downwardAPI"))
	for source := range tree.Items(tree.Child(v, "projected"), "sources") {
		tree.Set(tree.Child(source, "serviceAccountToken"), "expirationSeconds", int64(3600))
		defaultFieldRefs(tree.Child(source, "downwardAPI"))
	}
	if image := tree.Child(v, "image"); image != nil {
		tree.Set(image, "pullPolicy", pullPolicy(tree.Text(image, "reference")))
	}
	DefaultStorageSource(v)
	claim := tree.Child(v, "ephemeral", "volumeClaimTemplate")
	tree.SetPointer(tree.Child(claim, "spec"), "volumeMode", "Filesystem")
	RoundUpBoth(tree.Child(claim, "spec", "resources"))
}

// DefaultStorageSource defaults what volumes of pods and persistent volumes share.
func DefaultStorageSource(v tree.Object) {
	tree.SetPointer(tree.Child(v, "hostPath"), "type", "")
	tree.Set(tree.Child(v, "iscsi"), "iscsiInterface", "default")
	rbd := tree.Child(v, "rbd")
	tree.Set(rbd, "pool", "rbd")
	tree.Set(rbd, "user", "admin")
	tree.Set(rbd, "keyring", "/etc/ceph/keyring")
	scale := tree.Child(v, "scaleIO")
	tree.Set(scale, "storageMode", "ThinProvisioned")
	tree.Set(scale, "fsType", "xfs")
	azure := tree.Child(v, "azureDisk")
	tree.SetPointer(azure, "cachingMode", "ReadWrite")
	tree.SetPointer(azure, "fsType", "ext4")
	tree.SetPointer(azure, "readOnly", false)
	tree.SetPointer(azure, "kind", "Shared")
}

func defaultFieldRefs(downward tree.Object) {
	for item := range tree.Items(downward, "items") {
		tree.Set(tree.Child(item, "fieldRef"), "apiVersion", "v1")
	}
}

// DefaultClaim fills in the defaults of a persistent volume claim.
func DefaultClaim(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.SetPointer(spec, "volumeMode", "Filesystem")
	RoundUpBoth(tree.Child(spec, "resources"))
	status := tree.Made(o, "status")
	tree.Set(status, "phase", "Pending")
	RoundUp(tree.Child(status, "capacity"))
	RoundUp(tree.Child(status, "allocatedResources"))
}
