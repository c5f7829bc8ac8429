package auth

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// NodeOf returns the name of the node whose kubelet a user is: system:node:NAME of the group system:nodes. The name may be "".
func NodeOf(u user.Info) (name string, is bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	return strings.CutPrefix(u.GetName(), "system:node:")
}
