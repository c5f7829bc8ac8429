package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gapless-io/gapless/kube"
)

// compactPath is where the administrator forgets history.
const compactPath = "/gapless/v1/compact"

// serveOther answers the paths that are about no resource.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request, rt route) {
	first := rt.path[0]
	if first == "openapi" && len(rt.path) > 1 && rt.path[1] == "v3" && s.cfg.OpenAPI != nil && r.Method == http.MethodGet {
		s.cfg.OpenAPI.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == compactPath && s.cfg.Compact != nil {
		s.compact(w, r)
		return
	}
	if (first == "api" || first == "apis") && len(rt.path) > 2 && r.Method != http.MethodGet {
		// Upstream's text for a resource that is not served (server.md 5).
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.fail(w, r, kube.MethodNotAllowed(schema.GroupResource{}, r.Method))
		return
	}
	switch {
	case first == "livez" || first == "readyz" || first == "healthz":
		s.health(w, r, rt)
	case first == "api" || first == "apis":
		s.discover(w, r, rt)
	case r.URL.Path == "/version" || r.URL.Path == "/version/":
		s.writeJSON(w, r, s.cfg.Version)
	case r.URL.Path == "/metrics":
		s.metrics.handler.ServeHTTP(w, r)
	default:
		s.index(w, r)
	}
}

// index lists the paths there are; for an unknown one with 404 (server.md 6.5).
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	paths := []string{"/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"}
	for _, g := range s.cfg.Live.Load().Groups() {
		for _, v := range g.Versions {
			if g.Name == "" {
				paths = append(paths, "/api/"+v.Version)
			} else {
				paths = append(paths, "/apis/"+g.Name, "/apis/"+g.Name+"/"+v.Version)
			}
		}
	}
	slices.Sort(paths)
	code := http.StatusOK
	if r.URL.Path != "/" {
		code = http.StatusNotFound
	}
	body, err := json.Marshal(metav1.RootPaths{Paths: slices.Compact(paths)})
	if err != nil {
		s.fail(w, r, kube.Internal(err))
		return
	}
	s.writeBody(w, rendering{pretty: true}, answer{code: code, body: body})
}

// health answers /livez, /readyz, /healthz and their single checks in upstream's
// text form.
func (s *Server) health(w http.ResponseWriter, r *http.Request, rt route) {
	endpoint, one := rt.path[0], strings.Join(rt.path[1:], "/")
	checks := s.checks(endpoint)
	q := r.URL.Query()
	var lines strings.Builder
	failed, found := 0, false
	for _, c := range checks {
		if one != "" && c.Name != one {
			continue
		}
		found = true
		if slices.Contains(q["exclude"], c.Name) {
			fmt.Fprintf(&lines, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if err := c.Check(); err != nil {
			failed++
			// Whoever asks has shown no credentials, so the reason goes to the log.
			fmt.Fprintf(&lines, "[-]%s failed: reason withheld\n", c.Name)
			s.logger.WarnContext(r.Context(), "health check failed", slog.String("check", c.Name), slog.Any("error", err))
			continue
		}
		fmt.Fprintf(&lines, "[+]%s ok\n", c.Name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case one != "" && !found:
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	case failed > 0:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(&lines, "%s check failed\n", endpoint)
	case q.Has("verbose"):
		fmt.Fprintf(&lines, "%s check passed\n", endpoint)
	default:
		lines.Reset()
		lines.WriteString("ok")
	}
	_, _ = io.WriteString(w, lines.String()) // the client has gone: nobody is left to tell
}

// checks returns those of an endpoint; "ping" and "shutdown" are always there.
func (s *Server) checks(endpoint string) []Check {
	checks := []Check{{Name: "ping", Check: func() error { return nil }}}
	for _, c := range s.cfg.Checks {
		if !c.ReadyOnly || endpoint == "readyz" {
			checks = append(checks, c)
		}
	}
	if endpoint == "readyz" {
		checks = append(checks, Check{Name: "shutdown", Check: s.draining.Err})
	}
	return checks
}

// Compaction says what to forget: exactly one member is set.
type Compaction struct {
	UpTo      kube.ResourceVersion
	OlderThan time.Duration
}

// compactRequest and compactAnswer are the bodies of compactPath; resource
// versions are strings as everywhere, durations are Go's ("10m").
type compactRequest struct {
	UpTo      string `json:"upTo,omitempty"`
	OlderThan string `json:"olderThan,omitempty"`
}

type compactAnswer struct {
	Compacted string `json:"compacted"`
}

// compact is our extension: an administrator forgets history now.
func (s *Server) compact(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		s.fail(w, r, kube.MethodNotAllowed(schema.GroupResource{}, r.Method))
		return
	}
	c, err := readCompaction(r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	done, err := s.cfg.Compact(context.WithoutCancel(r.Context()), c)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.writeJSON(w, r, compactAnswer{Compacted: done.String()})
}

func readCompaction(r *http.Request) (Compaction, error) {
	body, err := readBody(r)
	if err != nil {
		return Compaction{}, err
	}
	var req compactRequest
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&req)
	if err == nil && decoder.More() {
		err = errors.New("there is more behind it")
	}
	if err != nil {
		return Compaction{}, kube.BadRequest("the body must be {\"upTo\":\"RESOURCEVERSION\"} or {\"olderThan\":\"10m\"}: %v", err)
	}
	if (req.UpTo == "") == (req.OlderThan == "") {
		return Compaction{}, kube.BadRequest("set exactly one of upTo and olderThan")
	}
	var c Compaction
	if req.UpTo != "" {
		c.UpTo, err = kube.ParseResourceVersion(req.UpTo)
	} else {
		c.OlderThan, err = time.ParseDuration(req.OlderThan)
	}
	if err != nil {
		return Compaction{}, kube.BadRequest("%v", err)
	}
	if c.UpTo == 0 && c.OlderThan <= 0 {
		return Compaction{}, kube.BadRequest("upTo and olderThan must be larger than zero")
	}
	return c, nil
}
