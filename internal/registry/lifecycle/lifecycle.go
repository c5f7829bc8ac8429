// Package lifecycle ties objects to the namespace they are in and to the definition of
// their kind: an object is created only while both exist, and is deleted before them.
//
// The [Gate] lets objects be created while both exist. [Definitions] are what writes of
// CustomResourceDefinitions do besides what all writes do. The [Controller]
// creates the namespaces that always exist, deletes the content of namespaces and
// definitions under deletion, and then removes them.
package lifecycle

import (
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// permanentNamespaces cannot be deleted.
func permanentNamespaces() []string { return []string{"default", "kube-system", "kube-public"} }

// initialNamespaces exist after each start.
func initialNamespaces() []string { return append(permanentNamespaces(), "kube-node-lease") }

// CheckDelete refuses with 403 to delete a namespace that must stay.
func CheckDelete(t kinds.Target) error {
	if t.Resource.IsNamespace() && slices.Contains(permanentNamespaces(), t.Name) {
		return wire.Forbidden(t.Resource.GR(), t.Name, "this namespace may not be deleted")
	}
	return nil
}
