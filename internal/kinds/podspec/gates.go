package podspec

import "github.com/gapless-io/gapless/internal/kinds/tree"

// DropGated removes from the spec of a pod the fields that are behind feature gates which are
// off by default in Kubernetes 1.37, as upstream's strategies do.
func DropGated(spec tree.Object) {
	if spec == nil {
		return
	}
	delete(spec, "evictionResponders")
	delete(spec, "schedulingGroup")
	for v := range tree.Items(spec, "volumes") {
		if dir := tree.Child(v, "emptyDir"); dir != nil {
			delete(dir, "mode")
		}
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for c := range tree.Items(spec, list) {
			for mount := range tree.Items(c, "volumeMounts") {
				delete(mount, "bindMountOptions")
			}
			for _, name := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
				ungate(tree.Child(c, name))
			}
			lifecycle := tree.Child(c, "lifecycle")
			ungate(tree.Child(lifecycle, "postStart"))
			ungate(tree.Child(lifecycle, "preStop"))
		}
	}
}

// ungate removes the protocol of a request of HTTP.
func ungate(handler tree.Object) {
	if get := tree.Child(handler, "httpGet"); get != nil {
		delete(get, "protocol")
	}
}

// CompleteTemplate removes gated fields from the pod template of a workload.
func CompleteTemplate(u, _ tree.Object) error {
	DropGated(tree.Child(u, "spec", "template", "spec"))
	return nil
}
