package apiserver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// verb is what a request does, by the names that discovery and metrics use.
type verb string

const (
	verbGet              verb = "get"
	verbList             verb = "list"
	verbWatch            verb = "watch"
	verbCreate           verb = "create"
	verbUpdate           verb = "update"
	verbPatch            verb = "patch"
	verbDelete           verb = "delete"
	verbDeleteCollection verb = "deletecollection"
	// verbOther is a method that the path does not know.
	verbOther verb = ""
)

// route is what a request's path and method mean. Resource is nil for a path
// that is about no resource; such a path is looked at by serveOther.
type route struct {
	schema.Target
	verb verb
	path []string // decoded segments, of every route
	// deprecatedWatch is set for paths below /watch/.
	deprecatedWatch bool
}

// attributes are what the authorizer is asked about.
func (rt *route) attributes(r *http.Request) auth.Attributes {
	if rt.Resource == nil {
		return auth.Attributes{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	}
	return auth.Attributes{
		Verb: string(rt.verb), Resource: rt.Resource.GR(), Subresource: rt.Subresource,
		Namespace: rt.Namespace, Name: rt.Name,
	}
}

// resolve reads the path and the method. It returns 400 for a path whose
// segments cannot be decoded or could climb (".", ".."), and 405 for a method
// that the resource does not have.
func resolve(catalog *schema.Catalog, r *http.Request) (route, error) {
	rt := route{}
	for segment := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return rt, kube.BadRequest("path segment %q cannot be decoded: %v", segment, err)
		}
		if decoded == "." || decoded == ".." || strings.ContainsAny(decoded, "/\x00") {
			return rt, kube.BadRequest("path segment %q is not allowed", segment)
		}
		rt.path = append(rt.path, decoded)
	}
	gv, rest := groupVersion(rt.path)
	if len(rest) == 0 || slices.Contains(rt.path, "") {
		return rt, nil // no resource has an empty namespace or name
	}
	if rest[0] == "watch" && len(rest) > 1 {
		rt.deprecatedWatch, rest = true, rest[1:]
	}
	plural := rt.locate(rest)
	resource, ok := catalog.Lookup(gv.withResource(plural))
	if ok && resource.Custom && rt.onlySubresourceUnknown(resource) {
		// Upstream's answer for custom resources, be the object there or not
		// (apiextensions customresource_handler.go).
		return rt, kube.NotFound(resource.GR(), rt.Name)
	}
	if !ok || !rt.fits(resource) {
		return route{path: rt.path}, nil
	}
	rt.Resource = resource
	rt.verb = verbOf(r, &rt)
	if rt.verb == verbOther {
		return rt, kube.MethodNotAllowed(resource.GR(), r.Method)
	}
	return rt, nil
}

type groupAndVersion struct{ group, version string }

func (gv groupAndVersion) withResource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: gv.group, Version: gv.version, Resource: plural}
}

// groupVersion splits off "api/v1" or "apis/group/version"; rest is empty when
// the path ends there or is another.
func groupVersion(path []string) (gv groupAndVersion, rest []string) {
	switch {
	case len(path) > 2 && path[0] == "api":
		return groupAndVersion{version: path[1]}, path[2:]
	case len(path) > 3 && path[0] == "apis":
		return groupAndVersion{group: path[1], version: path[2]}, path[3:]
	}
	return gv, nil
}

// locate fills in namespace, name and subresource and returns the plural, as
// apiserver requestinfo.go reads paths: "namespaces" is a resource or a scope.
func (rt *route) locate(rest []string) (plural string) {
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		rt.Namespace, rest = rest[1], rest[2:]
	}
	parts := append(slices.Clone(rest), "", "")
	rt.Name, rt.Subresource = parts[1], parts[2]
	if len(rest) > 3 {
		return ""
	}
	return rest[0]
}

// fits says whether the path's shape is one that the resource has.
func (rt *route) fits(resource *schema.Resource) bool {
	switch {
	case rt.Namespace != "" && !resource.Namespaced:
		return false
	case resource.Namespaced && rt.Namespace == "" && rt.Name != "":
		return false
	case rt.deprecatedWatch && rt.Subresource != "":
		return false
	}
	switch rt.Subresource {
	case "":
		return true
	case "status":
		return resource.HasStatus
	case "scale":
		return resource.Scale != nil
	}
	return false
}

// onlySubresourceUnknown says that nothing but the subresource keeps the path from
// fitting.
func (rt *route) onlySubresourceUnknown(resource *schema.Resource) bool {
	whole := *rt
	whole.Subresource = ""
	return !rt.fits(resource) && !rt.deprecatedWatch && whole.fits(resource)
}

func verbOf(r *http.Request, rt *route) verb {
	v := verbOther
	switch {
	case r.Method == http.MethodGet && rt.deprecatedWatch:
		v = verbWatch
	case rt.deprecatedWatch:
		return verbOther
	case r.Method == http.MethodGet && rt.Name != "":
		v = verbGet // also with ?watch=1 (server.md 1.4)
	case r.Method == http.MethodGet && kube.ParseBool(r.URL.Query(), "watch"):
		v = verbWatch
	case r.Method == http.MethodGet:
		v = verbList
	case r.Method == http.MethodPost && rt.Name == "":
		v = verbCreate
	case r.Method == http.MethodPut && rt.Name != "":
		v = verbUpdate
	case r.Method == http.MethodPatch && rt.Name != "":
		v = verbPatch
	case r.Method == http.MethodDelete && rt.Subresource != "":
		return verbOther
	case r.Method == http.MethodDelete && rt.Name != "":
		v = verbDelete
	case r.Method == http.MethodDelete:
		v = verbDeleteCollection
	}
	acrossNamespaces := rt.Resource.Namespaced && rt.Namespace == ""
	if acrossNamespaces && v != verbList && v != verbWatch {
		return verbOther
	}
	if !slices.Contains(rt.Resource.Verbs, string(v)) {
		return verbOther
	}
	return v
}

// scope is the label "scope" of the metrics.
func (rt *route) scope() string {
	switch {
	case rt.Resource == nil:
		return ""
	case rt.Name != "":
		return "resource"
	case rt.Namespace != "":
		return "namespace"
	default:
		return "cluster"
	}
}
