package core

import (
	"maps"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// defaultReplicationController fills in the defaults of a replication controller.
func defaultReplicationController(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "replicas", int64(1))
	if labels := templateLabels(o); len(labels) > 0 {
		if len(tree.Child(spec, "selector")) == 0 {
			spec["selector"] = labels
		}
		if metadata := tree.Made(o, "metadata"); len(tree.Child(metadata, "labels")) == 0 {
			metadata["labels"] = templateLabels(o)
		}
	}
	podspec.DefaultTemplate(tree.Child(spec, "template"))
}

// templateLabels copies the labels of a workload's pod template.
func templateLabels(o tree.Object) tree.Object {
	template := tree.Child(o, "spec", "template")
	return maps.Clone(tree.Child(template, "metadata", "labels"))
}

// defaultPodTemplate fills in the defaults of a PodTemplate.
func defaultPodTemplate(o tree.Object) { podspec.DefaultTemplate(tree.Child(o, "template")) }

// defaultPod fills in the defaults of a pod.
func defaultPod(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "enableServiceLinks", true)
	// These are not defaults of templates.
	if seconds, _ := spec["terminationGracePeriodSeconds"].(int64); seconds < 0 {
		spec["terminationGracePeriodSeconds"] = int64(1)
	}
	for _, list := range []string{"containers", "initContainers"} {
		for c := range tree.Items(spec, list) {
			podspec.RequestLimits(tree.Child(c, "resources"))
			if tree.Is(spec, "hostNetwork") {
				takeHostPorts(c)
			}
		}
	}
	podspec.Default(spec)
	if status := tree.Child(o, "status"); status != nil {
		podIPs(status)
	}
}

// takeHostPorts makes the ports of a container in the host's network those of the host.
func takeHostPorts(c tree.Object) {
	for port := range tree.Items(c, "ports") {
		tree.Set(port, "hostPort", port["containerPort"])
	}
}

// podIPs keeps podIP, which is the old form of podIPs for one of them, equal to the first;
// where the two differ, podIP counts.
func podIPs(status tree.Object) {
	list, _ := status["podIPs"].([]any)
	var first any
	if len(list) > 0 {
		item, _ := list[0].(tree.Object)
		first = item["ip"]
	}
	switch ip := tree.Text(status, "podIP"); {
	case ip != "" && ip != first:
		status["podIPs"] = []any{tree.Object{"ip": ip}}
	case ip == "":
		tree.Set(status, "podIP", first)
	}
}
