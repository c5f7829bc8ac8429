// Package route resolves the path and the method of a request.
//
// A [Route] is a verb on a resource, or a path that is about no
// resource. A [Verb] is what the request does, by the name that discovery and
// authorization use.
package route

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Verb is what a request does.
type Verb string

// The verbs.
const (
	Get              Verb = "get"
	List             Verb = "list"
	Watch            Verb = "watch"
	Create           Verb = "create"
	Update           Verb = "update"
	Patch            Verb = "patch"
	Delete           Verb = "delete"
	DeleteCollection Verb = "deletecollection"
	// Other is a method that the path does not have.
	Other Verb = ""
)

// Writes reports whether requests of the verb change objects.
func (v Verb) Writes() bool {
	switch v {
	case Create, Update, Patch, Delete, DeleteCollection:
		return true
	case Get, List, Watch, Other:
	}
	return false
}

// Route is what a request's path and method mean. Resource is nil for a path that is
// about no resource.
type Route struct {
	kinds.Target

	Verb Verb
	Path []string // decoded segments, of every route
	// Query has the parameters of the query, parsed once for all who need them.
	Query url.Values
	// deprecatedWatch is set for paths below /watch/.
	deprecatedWatch bool
}

// Resolve reads the path and the method. It returns 400 for a path whose
// segments cannot be decoded or could climb (".", ".."), and 405 for a method
// that the resource does not have.
func Resolve(catalog *kinds.Catalog, r *http.Request) (Route, error) {
	rt, err := Read(r)
	if err != nil {
		return rt, err
	}
	return resolve(catalog, r, rt)
}

// Read reads the path alone: the route is one that is about no resource. Errors: 400, as of Resolve.
func Read(r *http.Request) (Route, error) {
	const usual = 8 // segments
	rt := Route{Query: r.URL.Query(), Path: make([]string, 0, usual)}
	for segment := range strings.SplitSeq(strings.Trim(r.URL.EscapedPath(), "/"), "/") {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return rt, wire.BadRequest("path segment %q cannot be decoded: %v", segment, err)
		}
		if decoded == "." || decoded == ".." || strings.ContainsAny(decoded, "/\x00") {
			return rt, wire.BadRequest("path segment %q is not allowed", segment)
		}
		rt.Path = append(rt.Path, decoded)
	}
	return rt, nil
}

// resolve finds the resource of a path that was read.
func resolve(catalog *kinds.Catalog, r *http.Request, rt Route) (Route, error) {
	gv, rest := groupVersion(rt.Path)
	if len(rest) == 0 || slices.Contains(rt.Path, "") {
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
		return rt, wire.NotFound(resource.GR(), rt.Name)
	}
	if !ok || !rt.fits(resource) {
		return Route{Path: rt.Path, Query: rt.Query}, nil
	}
	rt.Resource = resource
	rt.Verb = verbOf(r, &rt)
	if rt.Verb == Other && resource.Custom && resource.Namespaced && rt.Namespace == "" {
		// Custom resources have no such path: apiextensions customresource_handler.go.
		return Route{Path: rt.Path, Query: rt.Query}, nil
	}
	if rt.Verb == Other {
		return rt, wire.MethodNotAllowed(resource.GR(), r.Method)
	}
	return rt, nil
}

type groupAndVersion struct{ group, version string }

func (gv groupAndVersion) withResource(plural string) kinds.GroupVersionResource {
	return kinds.GroupVersionResource{Group: gv.group, Version: gv.version, Resource: plural}
}

// BelowVersion reports whether the path continues below a version, like those of resources.
func (rt *Route) BelowVersion() bool {
	_, rest := groupVersion(rt.Path)
	return len(rest) > 0
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
func (rt *Route) locate(rest []string) (plural string) {
	if rest[0] == "namespaces" && len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
		rt.Namespace, rest = rest[1], rest[2:]
	}
	if len(rest) > 1 {
		rt.Name = rest[1]
	}
	if len(rest) > 2 {
		rt.Subresource = rest[2]
	}
	if len(rest) > 3 {
		return ""
	}
	return rest[0]
}

// fits reports whether the path's shape is one that the resource has.
func (rt *Route) fits(resource *kinds.Resource) bool {
	switch {
	case rt.Namespace != "" && !resource.Namespaced:
		return false
	case resource.Namespaced && rt.Namespace == "" && rt.Name != "":
		return false
	case rt.deprecatedWatch && rt.Subresource != "":
		return false
	case rt.Name != "" && rt.Subresource == "" && !resource.Custom && !hasNames(resource.Verbs):
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
	return resource.Subresource(rt.Subresource) != nil
}

// hasNames reports whether objects that have these verbs have paths of their own: those of reviews, which are only
// created, have none.
func hasNames(verbs []string) bool {
	return slices.ContainsFunc(verbs, func(verb string) bool { return verb != string(Create) })
}

// onlySubresourceUnknown says that nothing but the subresource keeps the path from
// fitting.
func (rt *Route) onlySubresourceUnknown(resource *kinds.Resource) bool {
	whole := *rt
	whole.Subresource = ""
	return !rt.fits(resource) && !rt.deprecatedWatch && whole.fits(resource)
}

func verbOf(r *http.Request, rt *Route) Verb {
	v := Other
	switch {
	case r.Method == http.MethodGet && rt.deprecatedWatch:
		v = Watch
	case rt.deprecatedWatch:
		return Other
	case r.Method == http.MethodGet && rt.Name != "":
		v = Get // also with ?watch=1
	case r.Method == http.MethodGet && wire.ParseBool(rt.Query, "watch"):
		v = Watch
	case r.Method == http.MethodGet:
		v = List
	case r.Method == http.MethodPost && (rt.Name == "" || rt.Subresource != ""):
		v = Create
	case r.Method == http.MethodPut && rt.Name != "":
		v = Update
	case r.Method == http.MethodPatch && rt.Name != "":
		v = Patch
	case r.Method == http.MethodDelete && rt.Subresource != "":
		return Other
	case r.Method == http.MethodDelete && rt.Name != "":
		v = Delete
	case r.Method == http.MethodDelete:
		v = DeleteCollection
	}
	acrossNamespaces := rt.Resource.Namespaced && rt.Namespace == ""
	if acrossNamespaces && v != List && v != Watch {
		return Other
	}
	verbs := rt.Resource.Verbs
	if sub := rt.Resource.Subresource(rt.Subresource); sub != nil {
		verbs = sub.Verbs
	} else if rt.Subresource != "" && v == Create {
		return Other
	}
	if !slices.Contains(verbs, string(v)) {
		return Other
	}
	return v
}

// Scope is the label "scope" of the metrics.
func (rt *Route) Scope() string {
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
