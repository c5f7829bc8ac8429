package route

import (
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
)

// NotServed is 404 for a path below /api or /apis at which nothing is served, with the
// part of the path that does not exist and why.
func NotServed(catalog *kinds.Catalog, path []string) error {
	if slices.Contains(path, "") {
		return emptySegment()
	}
	gv, rest := groupVersion(path)
	if len(rest) == 0 { // the document of a group or version
		gv = groupAndVersion{version: path[1]}
		if path[0] == "apis" {
			gv = groupAndVersion{group: path[1]}
		}
		if len(path) > 2 {
			gv.version = path[2]
		}
		return explain(catalog, place{GroupVersionResource: gv.withResource("")})
	}
	rt := Route{}
	if rest[0] == "watch" && len(rest) > 1 {
		rt.deprecatedWatch, rest = true, rest[1:]
	}
	rt.locate(rest)
	if rt.Namespace != "" {
		rest = rest[2:]
	}
	at := place{
		GroupVersionResource: gv.withResource(rest[0]),
		Namespace:            rt.Namespace, Name: rt.Name, Subresource: rt.Subresource, Watch: rt.deprecatedWatch,
	}
	if resource, ok := catalog.Lookup(at.GroupVersionResource); ok {
		at.Below = rt.fits(resource) // and the path was too long
	}
	return explain(catalog, at)
}
