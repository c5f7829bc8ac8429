package apiserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/discovery"
	"github.com/gapless-io/gapless/internal/apiserver/media"
	"github.com/gapless-io/gapless/internal/apiserver/render"
	"github.com/gapless-io/gapless/internal/apiserver/route"
	"github.com/gapless-io/gapless/internal/apiserver/swagger"
	"github.com/gapless-io/gapless/internal/auth/authn"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/status"
)

// serveOther answers the paths that are about no resource.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request, rt route.Route) error {
	first := rt.Path[0]
	if r.URL.Path == compactPath && s.cfg.Compact != nil {
		return s.compact(w, r)
	}
	if r.URL.Path == backupPath && s.cfg.Backup != nil {
		return s.backup(w, r)
	}
	if r.URL.Path == status.Path && s.cfg.Status != nil {
		return s.status(w, r)
	}
	if h := s.forTests(first, r.URL.Path); h != nil {
		if rt.Caller.GetName() == user.Anonymous {
			return wire.Unauthorized() // whatever the authorizer allows
		}
		h.ServeHTTP(w, r)
		return nil
	}
	if isDiscovery(r.URL.Path) && s.cfg.Discovery != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		s.cfg.Discovery.ServeHTTP(w, r)
		return nil
	}
	if c, connects := route.Connects(s.cfg.Live.Load(), r.Method, rt.Path); connects {
		return s.connect(w, r, c)
	}
	if rt.BelowVersion() {
		return s.notServed(s.cfg.Live.Load(), rt.Path)
	}
	if err := route.NotServedDocument(rt.Path); err != nil {
		return err
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	switch {
	case first == "livez" || first == "readyz" || first == "healthz":
		s.health(w, r, rt)
	case first == "api" || first == "apis":
		return s.discover(w, r, rt)
	case r.URL.Path == "/version" || r.URL.Path == "/version/":
		return s.writeJSON(w, r, s.cfg.Version)
	case r.URL.Path == "/metrics":
		s.metrics.ServeHTTP(w, r)
	default:
		return s.index(w, r)
	}
	return nil
}

// testCallsPath begins the paths of Config.TestCalls.
const testCallsPath = "/gapless/v1/test/"

// forTests returns the handler of a path that is served for tests only; nil if it is another.
func (s *Server) forTests(first, path string) http.Handler {
	switch {
	case first == "faults":
		return s.cfg.Faults
	case strings.HasPrefix(path, testCallsPath):
		return s.cfg.TestCalls
	}
	return nil
}

// isDiscovery reports whether a path is one of the documents about the issuer of tokens.
func isDiscovery(path string) bool {
	return path == authn.ConfigurationPath || path == authn.KeySetPath
}

const swaggerPath = "/openapi/v2"

// serveSwagger answers with the OpenAPI v2 document. Building it, or what changed of it,
// needs a processor; sending it does not.
func (s *Server) serveSwagger(w http.ResponseWriter, r *http.Request, sender string) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	form := swagger.Negotiate(r)
	if form == 0 {
		return wire.NotAcceptable(swagger.Accepted())
	}
	catalog := s.cfg.Live.Load()
	var behind []*aggregator.Swagger
	if others := s.aggregated(); others != nil {
		behind = others.Swaggers
	}
	doc := s.swagger.Built(catalog, behind, form)
	if doc == nil {
		release, err := s.load.Take(r.Context(), s.load.Processors, sender)
		if err != nil {
			return err
		}
		doc, err = s.swagger.Build(r.Context(), catalog, behind, form)
		release()
		if err != nil {
			return err
		}
	}
	doc.ServeHTTP(w, r)
	return nil
}

// isVersion3 reports whether a path is that of a document of OpenAPI v3, or of their index.
func isVersion3(path string) bool {
	return path == swagger.Path3 || strings.HasPrefix(path, swagger.Path3+"/")
}

// serveGroups answers with the document of OpenAPI v3 of a group and version, or with their
// index. Building needs a processor, as for version 2.
func (s *Server) serveGroups(w http.ResponseWriter, r *http.Request, sender string) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return wire.MethodNotAllowed(schema.GroupResource{}, r.Method)
	}
	if !swagger.AcceptsJSON(r) {
		return wire.NotAcceptable([]string{media.JSON})
	}
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, swagger.Path3), "/")
	doc, known := s.groups.Built(name)
	if !known {
		release, err := s.load.Take(r.Context(), s.load.Processors, sender)
		if err != nil {
			return err
		}
		doc, err = s.groups.Build(r.Context(), name)
		release()
		if err != nil {
			return err
		}
	}
	if doc != nil && name == "" {
		doc = s.groups.With(doc, s.aggregated())
	}
	if doc == nil {
		return s.index(w, r)
	}
	doc.ServeNamed(w, r, name)
	return nil
}

// index lists the paths there are; for an unknown one with 404.
func (s *Server) index(w http.ResponseWriter, r *http.Request) error {
	paths := []string{"/api", "/apis", "/healthz", "/livez", "/metrics", swaggerPath, swagger.Path3, "/readyz", "/version"}
	if s.cfg.Discovery != nil {
		paths = append(paths, authn.ConfigurationPath, authn.KeySetPath)
	}
	paths = append(paths, "/api/v1")
	for _, g := range discovery.Groups(s.cfg.Live.Load(), s.aggregated()) {
		paths = append(paths, "/apis/"+g.Name)
		for _, v := range g.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	slices.Sort(paths)
	code := http.StatusOK
	if r.URL.Path != "/" {
		code = http.StatusNotFound
	}
	body, err := json.Marshal(metav1.RootPaths{Paths: slices.Compact(paths)})
	if err != nil {
		return wire.Internal(err)
	}
	render.Write(w, render.Indented(), code, body)
	return nil
}
