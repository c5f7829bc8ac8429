package apiserver

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/apiserver/compress"
	"github.com/gapless-io/gapless/internal/apiserver/discovery"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// discover answers /api, /apis and the lists of groups and resources below them.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	path := rt.Path
	catalog := s.cfg.Live.Load()
	switch {
	case len(path) == 1:
		return s.discoverRoot(w, r, path[0])
	case path[0] == "api" && len(path) == 2:
		if v, ok := findVersion(catalog, "", path[1]); ok {
			return s.writeJSON(w, r, discovery.Resources(v))
		}
	case path[0] == "apis" && len(path) == 2:
		for _, group := range discovery.Groups(catalog, s.aggregated()) {
			if group.Name == path[1] {
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return s.writeJSON(w, r, group)
			}
		}
	case path[0] == "apis" && len(path) == 3:
		if v, ok := findVersion(catalog, path[1], path[2]); ok {
			return s.writeJSON(w, r, discovery.Resources(v))
		}
	}
	return s.notServed(catalog, path)
}

func findVersion(c *kinds.Catalog, group, version string) (kinds.GroupVersion, bool) {
	for _, g := range c.Groups() {
		for _, v := range g.Versions {
			if g.Name == group && v.Version == version {
				return v, true
			}
		}
	}
	return kinds.GroupVersion{}, false
}

// discoverRoot answers /api and /apis: aggregated if the client accepts it, else with the
// legacy documents.
func (s *Server) discoverRoot(w http.ResponseWriter, r *http.Request, root string) error {
	w.Header().Add("Vary", "Accept")
	for _, m := range media.Accepted(r) {
		version := m.Params["v"]
		if m.Name == media.JSON && m.Params["as"] == "APIGroupDiscoveryList" {
			if m.Params["g"] == "apidiscovery.k8s.io" && (version == "v2" || version == "v2beta1") {
				return s.discoverAggregated(w, r, root, version)
			}
			continue
		}
		break
	}
	catalog := s.cfg.Live.Load()
	if root == "api" {
		return s.writeJSON(w, r, metav1.APIVersions{
			TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"},
			ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{{ClientCIDR: "0.0.0.0/0", ServerAddress: r.Host}},
		})
	}
	return s.writeJSON(w, r, metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: discovery.Groups(catalog, s.aggregated()),
	})
}

// discoverAggregated answers with one document for all groups, or 304.
func (s *Server) discoverAggregated(w http.ResponseWriter, r *http.Request, root, version string) error {
	doc, err := s.discovery.Document(s.cfg.Live.Load(), s.aggregated(), root, version)
	if err != nil {
		return wire.Internal(err)
	}
	w.Header().Set("Etag", doc.ETag)
	w.Header().Set("Cache-Control", "public")
	if r.Header.Get("If-None-Match") == doc.ETag {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", fmt.Sprintf("application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList", version))
	out := compress.New(w, media.AcceptsGzip(r))
	defer out.Release()
	out.Write(doc.Body)
	out.Close()
	return nil
}
