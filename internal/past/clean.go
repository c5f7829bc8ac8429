package past

import "strings"

// Clean returns an object without what a server writes, so that kubectl apply puts it back: uid, resourceVersion,
// generation, managedFields, creationTimestamp, what its deletion has set, owner references, the status, what kubectl
// apply had noted, and what a controller writes into a Deployment or a Job. The original stays as it is.
//
// Owner references are left out because they have the uid of the owner: if it is gone, the garbage collector would
// remove what was put back.
func Clean(tree Tree) Tree {
	out := without(tree, "status")
	meta, _ := tree["metadata"].(Tree)
	meta = without(meta, "uid", "resourceVersion", "generation", "managedFields", "creationTimestamp", "selfLink",
		"deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences")
	meta = cleaned(meta, "annotations", func(name string) bool {
		return name == lastApplied || name == "deployment.kubernetes.io/revision"
	})
	out["metadata"] = meta
	group, _, _ := strings.Cut(Text(tree, "apiVersion"), "/")
	if spec, is := out["spec"].(Tree); is && group == "batch" && tree["kind"] == "Job" && spec["manualSelector"] != true {
		out["metadata"] = cleaned(meta, "labels", generated)
		spec = without(spec, "selector") // it has the uid of the former Job
		if template, is := spec["template"].(Tree); is {
			template = without(template)
			below, _ := template["metadata"].(Tree)
			template["metadata"] = cleaned(without(below), "labels", generated)
			spec["template"] = template
		}
		out["spec"] = spec
	}
	return out
}

// generated reports whether a label is one that a server gives to a Job and its Pods.
func generated(label string) bool {
	switch strings.TrimPrefix(label, "batch.kubernetes.io/") {
	case "controller-uid", "job-name":
		return true
	}
	return false
}

// cleaned removes members of a member of meta, which may be changed, and the member if nothing is left.
func cleaned(meta Tree, member string, gone func(string) bool) Tree {
	values, is := meta[member].(Tree)
	if !is {
		return meta
	}
	left := make(Tree, len(values))
	for name, value := range values {
		if !gone(name) {
			left[name] = value
		}
	}
	if meta[member] = left; len(left) == 0 {
		delete(meta, member)
	}
	return meta
}
