package route

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// place is what a path below /api or /apis names; "" is what it does not name. Upstream
// answers most of those where nothing is served with the text "404 page not found", which clients show as
// "the server could not find the requested resource": the answers begin with that.
type place struct {
	kinds.GroupVersionResource
	Namespace   string
	Name        string
	Subresource string
	Watch       bool // it is a deprecated path with /watch/
	Below       bool // the path continues below a subresource that is served
}

// emptySegment is 404 for a path like /api/v1//pods.
func emptySegment() error {
	return wire.NotServed(apischema.GroupResource{}, "", "a segment of the path is empty")
}

// explain is 404 for a place at which a catalog serves nothing, with the missing part and the
// reason.
func explain(catalog *kinds.Catalog, p place) error {
	e := wire.NotServed(apischema.GroupResource{Group: p.Group, Resource: p.Resource}, p.Name, why(catalog, p))
	if _, served := catalog.Lookup(p.GroupVersionResource); served && upstreamHasNeither(p) {
		e.ErrStatus.Details.Causes = []metav1.StatusCause{
			{Type: metav1.CauseTypeUnexpectedServerResponse, Message: why(catalog, p)},
		}
		e.ErrStatus.Message = upstreams
	}
	return e
}

// upstreams is the message of upstream, and no more.
const upstreams = "the server could not find the requested resource"

// upstreamHasNeither reports whether upstream has no such subresource of a resource that is
// served. Tests of operators compare its message, as where they write the status of kinds that
// may have none; so the reason is a cause.
func upstreamHasNeither(p place) bool {
	return p.Subresource != "" && !p.Below && !p.Watch && subresourceReasons()[p.Subresource] == ""
}

func why(catalog *kinds.Catalog, p place) string {
	gv := apischema.GroupVersion{Group: p.Group, Version: p.Version}
	resource, ok := catalog.Lookup(p.GroupVersionResource)
	switch {
	case !ok && !servesVersion(catalog, gv):
		return groupNotServed(catalog, gv)
	case !ok:
		return fmt.Sprintf("%s is not served in %s", p.Resource, gv) + because(resourceReasons(), p.Resource+"."+p.Group)
	case p.Namespace != "" && !resource.Namespaced:
		return p.Resource + " are in no namespace, and the path names one"
	case p.Namespace == "" && resource.Namespaced:
		return p.Resource + " are in namespaces, and the path names none"
	case p.Watch:
		return "the path is too long for a watch"
	case p.Below:
		return fmt.Sprintf("there is nothing below %s/%s", p.Resource, p.Subresource)
	}
	return fmt.Sprintf("%s/%s is not served in %s", p.Resource, p.Subresource, gv) + because(subresourceReasons(), p.Subresource)
}

// versions are those of a group.
func versions(catalog *kinds.Catalog, group string) []string {
	var all []string
	for _, g := range catalog.Groups() {
		if g.Name == group {
			for _, v := range g.Versions {
				all = append(all, v.Version)
			}
		}
	}
	return all
}

func servesVersion(catalog *kinds.Catalog, gv apischema.GroupVersion) bool {
	return slices.Contains(versions(catalog, gv.Group), gv.Version)
}

func groupNotServed(catalog *kinds.Catalog, gv apischema.GroupVersion) string {
	if served := versions(catalog, gv.Group); len(served) > 0 {
		return fmt.Sprintf("%s is not served, there is %s", gv, strings.Join(served, ", "))
	}
	return fmt.Sprintf("the API group %s is not served", gv.Group) + because(groupReasons(), gv.Group)
}

// because returns a reason as the end of a sentence; "" for what is not implemented.
func because(reasons map[string]string, of string) string {
	if why := reasons[of]; why != "" {
		return ": " + why
	}
	return ""
}

const (
	nothingRuns  = "no containers run here, this server only keeps objects"
	noProxy      = "this server sends no request on to pods, services or nodes"
	noIssuer     = "the issuer of service account tokens is not an https URL"
	noComponents = "it is deprecated, and this server asks no other components how they are"
	noAggregated = "no APIService names a server that serves it"
)

// subresourceReasons are the reasons why subresources are not served.
func subresourceReasons() map[string]string {
	return map[string]string{
		"exec": nothingRuns, "attach": nothingRuns, "portforward": nothingRuns, "log": nothingRuns,
		"proxy": noProxy,
	}
}

// resourceReasons are the reasons why resources of groups that are served are not.
func resourceReasons() map[string]string {
	return map[string]string{"componentstatuses.": noComponents}
}

// groupReasons are the reasons why groups that other clusters serve are not served.
func groupReasons() map[string]string {
	return map[string]string{
		"metrics.k8s.io": noAggregated, "custom.metrics.k8s.io": noAggregated,
		"external.metrics.k8s.io": noAggregated,
	}
}

// NotServedDocument returns 404 with the reason for a path outside of /api and /apis that other
// clusters serve, and nil for other paths.
func NotServedDocument(path []string) error {
	var why string
	switch whole := "/" + strings.Join(path, "/"); {
	case strings.HasPrefix(whole, "/swagger"):
		why = whole + " is not served, only /openapi/v2 and /openapi/v3"
	case whole == "/.well-known/openid-configuration", whole == "/openid/v1/jwks":
		why = whole + " is not served: " + noIssuer
	case path[0] == "logs":
		why = whole + " is not served: " + nothingRuns
	case path[0] == "debug":
		why = whole + " is not served: profiles are at the address of --debug-listen"
	default:
		return nil
	}
	return wire.NotServed(apischema.GroupResource{}, "", why)
}
