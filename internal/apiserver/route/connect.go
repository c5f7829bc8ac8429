package route

import (
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Connection is a request to what runs in a cluster: a pod, the pods behind a service, or a node. Its Name may have a
// scheme and a port for proxies.
type Connection struct {
	kinds.Target

	Path []string // of the whole request
}

// Connects returns the connection that a path asks for; false if it is another, or the method is one that upstream has
// not for it.
func Connects(catalog *kinds.Catalog, method string, path []string) (Connection, bool) {
	gv, rest := groupVersion(path)
	if gv != (groupAndVersion{version: "v1"}) || len(rest) < 3 || slices.Contains(path[:len(path)-1], "") {
		return Connection{}, false
	}
	rt := Route{}
	rt.locate(rest)
	if rt.Namespace != "" {
		rest = rest[2:]
	}
	methods := connectMethods(rest[0], rt.Subresource)
	resource, served := catalog.Lookup(gv.withResource(rest[0]))
	if !served || !slices.Contains(methods, method) || resource.Namespaced != (rt.Namespace != "") ||
		len(rest) > 3 && rt.Subresource != "proxy" {
		return Connection{}, false
	}
	rt.Resource = resource
	return Connection{Target: rt.Target, Path: path}, true
}

// connectMethods are the methods of a subresource by which upstream connects to what runs (rest.Connecter, and logs).
func connectMethods(plural, subresource string) []string {
	switch plural + "/" + subresource {
	case "pods/log":
		return []string{"GET"}
	case "pods/exec", "pods/attach", "pods/portforward":
		return []string{"GET", "POST"}
	case "pods/proxy", "services/proxy", "nodes/proxy":
		return []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
	}
	return nil
}
