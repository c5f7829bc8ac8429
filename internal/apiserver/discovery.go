package apiserver

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// discovery keeps the aggregated documents of the catalog they were made from.
type discovery struct {
	mu sync.Mutex
	// mu guards the documents of one catalog.
	catalog *schema.Catalog
	docs    map[aggregated]document
}

// aggregated names a document: of /api or of /apis, in a version of its format.
type aggregated struct {
	root    string
	version string
}

type document struct {
	body []byte
	etag string
}

// discover answers /api, /apis and what lists resources below them.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, rt route) {
	path := rt.path
	catalog := s.cfg.Live.Load()
	switch {
	case len(path) == 1:
		s.discoverRoot(w, r, path[0])
		return
	case path[0] == "api" && len(path) == 2:
		if v, ok := findVersion(catalog, "", path[1]); ok {
			s.writeJSON(w, r, resourceList(v))
			return
		}
	case path[0] == "apis" && len(path) == 2:
		for _, g := range catalog.Groups() {
			if g.Name == path[1] && g.Name != "" {
				group := apiGroup(g)
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				s.writeJSON(w, r, group)
				return
			}
		}
	case path[0] == "apis" && len(path) == 3:
		if v, ok := findVersion(catalog, path[1], path[2]); ok {
			s.writeJSON(w, r, resourceList(v))
			return
		}
	}
	// Upstream's text for a resource that is not served (server.md 5).
	http.Error(w, "404 page not found", http.StatusNotFound)
}

func findVersion(c *schema.Catalog, group, version string) (schema.GroupVersion, bool) {
	for _, g := range c.Groups() {
		for _, v := range g.Versions {
			if g.Name == group && v.Version == version {
				return v, true
			}
		}
	}
	return schema.GroupVersion{}, false
}

// discoverRoot answers /api and /apis: aggregated for who accepts it, else the
// legacy documents.
func (s *Server) discoverRoot(w http.ResponseWriter, r *http.Request, root string) {
	w.Header().Add("Vary", "Accept")
	for _, m := range parseAccept(r.Header.Values("Accept")) {
		version := m.params["v"]
		if m.name == mediaJSON && m.params["as"] == "APIGroupDiscoveryList" {
			if m.params["g"] == "apidiscovery.k8s.io" && (version == "v2" || version == "v2beta1") {
				s.discoverAggregated(w, r, aggregated{root: root, version: version})
				return
			}
			continue
		}
		break
	}
	catalog := s.cfg.Live.Load()
	if root == "api" {
		s.writeJSON(w, r, metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		})
		return
	}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	for _, g := range catalog.Groups() {
		if g.Name != "" {
			list.Groups = append(list.Groups, apiGroup(g))
		}
	}
	s.writeJSON(w, r, list)
}

func apiGroup(g schema.Group) metav1.APIGroup {
	group := metav1.APIGroup{Name: g.Name}
	for _, v := range g.Versions {
		gv := metav1.GroupVersionForDiscovery{GroupVersion: g.Name + "/" + v.Version, Version: v.Version}
		group.Versions = append(group.Versions, gv)
	}
	group.PreferredVersion = group.Versions[0]
	return group
}

// resourceList is the legacy document of one group and version.
func resourceList(v schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	list.APIResources = []metav1.APIResource{}
	for _, r := range v.Resources {
		list.GroupVersion = r.APIVersion()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
			Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
		for _, sub := range subresources(r) {
			res := metav1.APIResource{Name: r.Plural + "/" + sub.Subresource, Namespaced: r.Namespaced, Kind: sub.ResponseKind.Kind, Verbs: sub.Verbs}
			if sub.ResponseKind.Group != r.Group || sub.ResponseKind.Version != r.Version {
				res.Group, res.Version = sub.ResponseKind.Group, sub.ResponseKind.Version
			}
			list.APIResources = append(list.APIResources, res)
		}
	}
	return list
}

func subresources(r *schema.Resource) []discoveryv2.APISubresourceDiscovery {
	var subs []discoveryv2.APISubresourceDiscovery
	verbs := []string{"get", "patch", "update"}
	if r.Scale != nil {
		subs = append(subs, discoveryv2.APISubresourceDiscovery{
			Subresource: "scale", Verbs: verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		})
	}
	if r.HasStatus {
		subs = append(subs, discoveryv2.APISubresourceDiscovery{
			Subresource: "status", Verbs: verbs,
			ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		})
	}
	return subs
}

// discoverAggregated answers with one document for all groups, or 304.
func (s *Server) discoverAggregated(w http.ResponseWriter, r *http.Request, name aggregated) {
	doc, err := s.discovery.document(s.cfg.Live.Load(), name)
	if err != nil {
		s.fail(w, r, kube.Internal(err))
		return
	}
	w.Header().Set("Etag", doc.etag)
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == doc.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", fmt.Sprintf("application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList", name.version))
	out := newCompressor(w, acceptsGzip(r))
	defer out.release()
	out.Write(doc.body)
	out.close()
}

func (d *discovery) document(catalog *schema.Catalog, name aggregated) (document, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.catalog != catalog {
		d.catalog, d.docs = catalog, map[aggregated]document{}
	}
	if doc, ok := d.docs[name]; ok {
		return doc, nil
	}
	list := discoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/" + name.version},
		Items:    []discoveryv2.APIGroupDiscovery{},
	}
	for _, g := range catalog.Groups() {
		if (g.Name == "") == (name.root == "api") {
			list.Items = append(list.Items, aggregate(g))
		}
	}
	// v2beta1 has the same fields.
	body, err := json.Marshal(list)
	if err != nil {
		return document{}, fmt.Errorf("encode discovery: %w", err)
	}
	doc := document{body: body, etag: fmt.Sprintf(`"%X"`, sha512.Sum512(body))}
	d.docs[name] = doc
	return doc, nil
}

func aggregate(g schema.Group) discoveryv2.APIGroupDiscovery {
	group := discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	for _, v := range g.Versions {
		version := discoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
		for _, r := range v.Resources {
			scope := discoveryv2.ScopeCluster
			if r.Namespaced {
				scope = discoveryv2.ScopeNamespace
			}
			version.Resources = append(version.Resources, discoveryv2.APIResourceDiscovery{
				Resource: r.Plural, Scope: scope, SingularResource: r.Singular, Verbs: slices.Clone(r.Verbs),
				ShortNames: r.ShortNames, Categories: r.Categories, Subresources: subresources(r),
				ResponseKind: &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
			})
		}
		group.Versions = append(group.Versions, version)
	}
	return group
}
