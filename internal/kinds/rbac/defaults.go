package rbac

import "github.com/gapless-io/gapless/internal/kinds/tree"

// Defaults as of pkg/apis/rbac/v1/defaults.go of Kubernetes 1.37.

// defaultBinding fills in the group of roles, and of the subjects that have one.
func defaultBinding(o tree.Object) {
	const group = "rbac.authorization.k8s.io"
	tree.Set(tree.Child(o, "roleRef"), "apiGroup", group)
	for subject := range tree.Items(o, "subjects") {
		if kind := subject["kind"]; kind == "User" || kind == "Group" {
			tree.Set(subject, "apiGroup", group)
		}
	}
}
