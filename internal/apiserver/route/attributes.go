package route

import (
	"cmp"
	"net/http"
	"strings"

	metavalidation "k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/wire"
)

// Attributes are what the authorizer decides on: those of upstream's
// apiserver endpoints/request/requestinfo.go, also for paths that are not served.
func (rt *Route) Attributes(r *http.Request) auth.Attributes {
	if rt.Resource == nil || rt.Verb == Other {
		return rt.read(r)
	}
	a := auth.Attributes{
		Verb: string(rt.Verb), Resource: rt.Resource.GR(), Version: rt.Resource.Version, Subresource: rt.Subresource,
		Namespace: rt.Namespace, Name: rt.Name,
	}
	if a.Resource.Resource == "namespaces" && a.Resource.Group == "" {
		a.Namespace = a.Name // a role in a namespace may be about the namespace
	}
	rt.selectors(&a)
	return a
}

// selectors adds what a list, watch or deletecollection selects.
func (rt *Route) selectors(a *auth.Attributes) {
	switch Verb(a.Verb) {
	case List, Watch, DeleteCollection:
	case Get, Create, Update, Patch, Delete, Other:
		return
	}
	if len(rt.Query) == 0 || rt.deprecatedWatch {
		return
	}
	a.FieldSelector, a.LabelSelector = rt.Query.Get("fieldSelector"), rt.Query.Get("labelSelector")
	if a.Verb == string(DeleteCollection) || a.Name != "" || !strings.Contains(a.FieldSelector, "metadata.name") {
		return
	}
	selector, err := fields.ParseSelector(a.FieldSelector)
	if err != nil {
		return // the verb refuses it
	}
	if name, exact := selector.RequiresExactMatch("metadata.name"); exact && len(metavalidation.IsPathSegmentName(name)) == 0 {
		a.Name = name
	}
}

// read reads the attributes from the path alone.
func (rt *Route) read(r *http.Request) auth.Attributes {
	// A request for http://host has no path. Attributes without one would be about a resource.
	other := auth.Attributes{Verb: strings.ToLower(r.Method), Path: cmp.Or(r.URL.Path, "/")}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	gv, rest := groupVersion(parts)
	if len(rest) == 0 {
		return other
	}
	a := auth.Attributes{Version: gv.version}
	a.Resource.Group = gv.group
	watch := (rest[0] == "watch" || rest[0] == "proxy") && len(rest) > 1
	if watch {
		a.Verb, rest = rest[0], rest[1:]
	} else {
		a.Verb = verbWithoutResource(r.Method)
	}
	if rest[0] == "namespaces" && len(rest) > 1 {
		a.Namespace = rest[1]
		if len(rest) > 2 && rest[2] != "status" && rest[2] != "finalize" {
			rest = rest[2:]
		}
	}
	a.Resource.Resource = rest[0]
	if len(rest) > 1 {
		a.Name = rest[1]
	}
	if len(rest) > 2 && a.Verb != "proxy" {
		a.Subresource = rest[2]
	}
	switch {
	case a.Name != "":
	case a.Verb == string(Get) && wire.ParseBool(rt.Query, "watch"):
		a.Verb = string(Watch)
	case a.Verb == string(Get):
		a.Verb = string(List)
	case a.Verb == string(Delete):
		a.Verb = string(DeleteCollection)
	}
	if !watch {
		rt.selectors(&a)
	}
	return a
}

// verbWithoutResource is the verb for a method on an object.
func verbWithoutResource(method string) string {
	switch method {
	case http.MethodPost:
		return string(Create)
	case http.MethodGet, http.MethodHead:
		return string(Get)
	case http.MethodPut:
		return string(Update)
	case http.MethodPatch:
		return string(Patch)
	case http.MethodDelete:
		return string(Delete)
	}
	return string(Other)
}
