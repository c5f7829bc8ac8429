package aggregator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"strings"
	"time"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// How the servers behind are asked for their documents: kube-aggregator pkg/apiserver/handler_discovery.go.
const (
	lookers    = 2 // at a time
	firstLook  = 500 * time.Millisecond
	lookEvery  = time.Minute
	lookWithin = 5 * time.Second
	// maxDocument bounds a document, in bytes: all of a server with 10 000 kinds has 5 MiB.
	maxDocument = 16 << 20
)

// answer is what a server behind has said about itself.
type answer struct {
	at       time.Time // before it was asked
	etag     string
	versions map[schema.GroupVersion]*discoveryv2.APIVersionDiscovery
}

// aggregatorUser asks servers behind for documents. They let it read all of them.
func aggregatorUser() user.Info {
	return &user.DefaultInfo{Name: "system:kube-aggregator", Groups: []string{user.SystemPrivilegedGroup}}
}

// look asks the server behind an APIService for its documents, unless it was asked for another APIService of the same
// Service since the last change. A version of a server that does not answer is marked as stale, and has no resources.
func (a *Aggregator) look(ctx context.Context, name string) (again time.Duration, err error) {
	of := a.of(name)
	if of == nil || of.backend == nil {
		return 0, nil
	}
	entry, err := a.entryOf(ctx, of)
	var paths map[string]string
	if err == nil {
		var none error
		if paths, none = of.backend.openAPI(ctx); none != nil { // it may have none
			a.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "ask a server behind for OpenAPI", slog.String("apiservice", name),
				slog.Any("error", none))
		}
	} else {
		a.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "ask a server behind for its documents", slog.String("apiservice", name),
			slog.Any("error", err))
	}
	if ctx.Err() != nil {
		return 0, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.services[name]
	if now == nil || now.backend == nil || now.backend.Version() != of.backend.Version() || !now.backend.serves(of.decoded) {
		return 0, nil // it has changed, and is due again
	}
	if err != nil {
		paths = now.paths
	}
	if !same(now.found, entry) || !maps.Equal(now.paths, paths) {
		now.found, now.paths = entry, paths
		a.versions = nil
	}
	return lookEvery, err
}

// entryOf returns what discovery shows of an APIService with a server behind.
func (a *Aggregator) entryOf(ctx context.Context, of *service) (*discoveryv2.APIVersionDiscovery, error) {
	gv := of.backend.Version()
	entry := &discoveryv2.APIVersionDiscovery{Version: gv.Version}
	said, err := a.ask(ctx, of)
	if err == nil && said.versions[gv] != nil {
		*entry = *said.versions[gv]
	}
	entry.Freshness = discoveryv2.DiscoveryFreshnessCurrent
	if err != nil {
		entry.Freshness = discoveryv2.DiscoveryFreshnessStale
	}
	return entry, err
}

func same(a, b *discoveryv2.APIVersionDiscovery) bool {
	if a == nil || b == nil {
		return a == b
	}
	one, _ := json.Marshal(a) //nolint:errchkjson // strings only
	two, _ := json.Marshal(b) //nolint:errchkjson // as above
	return string(one) == string(two)
}

// ask returns what a server behind says about itself, after the last change of its APIService.
func (a *Aggregator) ask(ctx context.Context, of *service) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	if of.backend.broken != nil {
		return nil, of.backend.broken
	}
	at := of.backend.reference()
	a.mu.Lock()
	known := a.answers[at]
	a.mu.Unlock()
	if known != nil && known.at.After(of.marked) && time.Since(known.at) < lookEvery/2 {
		return known, nil
	}
	said := &answer{at: time.Now()}
	header := http.Header{"Accept": {aggregatedForm}}
	if known != nil && known.etag != "" {
		header.Set("If-None-Match", known.etag)
	}
	got, err := of.backend.get(ctx, aggregatorUser(), "/apis", header)
	switch {
	case err != nil:
		return nil, err
	case got.code == http.StatusNotModified && known != nil:
		said.etag, said.versions = known.etag, known.versions
	case got.code == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("the answer is %d", got.code)
	case got.code == http.StatusOK && isAggregated(got.header.Get("Content-Type")):
		if said.versions, err = readAggregated(got.body); err != nil {
			return nil, err
		}
		said.etag = got.header.Get("Etag")
	default:
		return askLegacy(ctx, of.backend) // of one version: it is not kept
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.services[of.backend.name]; now != nil && now.backend != nil && now.backend.reference() == at {
		a.answers[at] = said
	}
	return said, nil
}

// askLegacy asks a server that has no aggregated discovery.
func askLegacy(ctx context.Context, b *Backend) (*answer, error) {
	gv := b.Version()
	path := "/apis/" + gv.String()
	got, err := b.get(ctx, &user.DefaultInfo{Name: "system:kube-aggregator"}, path, http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, err
	}
	if got.code != http.StatusOK {
		return nil, fmt.Errorf("the answer to %s is %d", path, got.code)
	}
	version, err := readLegacy(got.body, gv)
	if err != nil {
		return nil, err
	}
	return &answer{versions: map[schema.GroupVersion]*discoveryv2.APIVersionDiscovery{gv: version}}, nil
}

// aggregatedForm is the form of a document about all groups.
const aggregatedForm = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

func isAggregated(contentType string) bool {
	form, params, err := mime.ParseMediaType(contentType)
	return err == nil && form == "application/json" && params["g"] == "apidiscovery.k8s.io" && params["v"] == "v2" &&
		params["as"] == "APIGroupDiscoveryList"
}

// readAggregated reads a document about all groups of a server.
func readAggregated(body []byte) (map[schema.GroupVersion]*discoveryv2.APIVersionDiscovery, error) {
	var list discoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the discovery document: %w", err)
	}
	versions := map[schema.GroupVersion]*discoveryv2.APIVersionDiscovery{}
	for _, g := range list.Items {
		for i := range g.Versions {
			v := &g.Versions[i]
			for j := range v.Resources { // clients of 1.26 cannot do without: kubernetes issue 118361
				of := &v.Resources[j]
				if of.ResponseKind == nil {
					of.ResponseKind = &metav1.GroupVersionKind{}
				}
				for k := range of.Subresources {
					if of.Subresources[k].ResponseKind == nil {
						of.Subresources[k].ResponseKind = &metav1.GroupVersionKind{}
					}
				}
			}
			versions[schema.GroupVersion{Group: g.Name, Version: v.Version}] = v
		}
	}
	return versions, nil
}

// readLegacy reads the document about one version of a group (apiserver pkg/endpoints
// ConvertGroupVersionIntoToDiscovery).
func readLegacy(body []byte, gv schema.GroupVersion) (*discoveryv2.APIVersionDiscovery, error) {
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the discovery document: %w", err)
	}
	version := &discoveryv2.APIVersionDiscovery{Version: gv.Version}
	at := map[string]int{} // the places of resources
	place := func(name string, scope discoveryv2.ResourceScope) int {
		i, is := at[name]
		if !is {
			i = len(version.Resources)
			at[name] = i
			version.Resources = append(version.Resources, discoveryv2.APIResourceDiscovery{
				Resource: name, Scope: scope, ResponseKind: &metav1.GroupVersionKind{},
			})
		}
		return i
	}
	for _, r := range list.APIResources {
		scope := discoveryv2.ScopeCluster
		if r.Namespaced {
			scope = discoveryv2.ScopeNamespace
		}
		kind := kindOf(&r, gv)
		name, sub, isSub := strings.Cut(r.Name, "/")
		if name == "" || isSub && (sub == "" || strings.Contains(sub, "/")) {
			return nil, fmt.Errorf("the discovery document has a resource %q", r.Name)
		}
		of := &version.Resources[place(name, scope)]
		if isSub {
			of.Subresources = append(of.Subresources,
				discoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind, Verbs: r.Verbs})
			continue
		}
		of.Scope, of.SingularResource, of.Verbs = scope, r.SingularName, r.Verbs
		of.ShortNames, of.Categories, of.ResponseKind = r.ShortNames, r.Categories, kind
	}
	return version, nil
}

func kindOf(r *metav1.APIResource, gv schema.GroupVersion) *metav1.GroupVersionKind {
	kind := &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	if kind.Group == "" && kind.Version == "" {
		kind.Group, kind.Version = gv.Group, gv.Version
	}
	return kind
}

// openAPI returns where the documents of OpenAPI v3 about the version and its group are, by their names; nil if the
// server behind has none of them.
func (b *Backend) openAPI(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	got, err := b.get(ctx, &user.DefaultInfo{Name: "system:aggregator"}, "/openapi/v3",
		http.Header{"Accept": {"application/json"}})
	if err != nil {
		return nil, err
	}
	if got.code != http.StatusOK {
		return nil, fmt.Errorf("the answer to /openapi/v3 is %d", got.code)
	}
	return readPaths(got.body, "apis/"+b.Version().String())
}

// readPaths reads the index of OpenAPI v3, of which only one document counts: a server behind cannot speak for others.
func readPaths(body []byte, name string) (map[string]string, error) {
	var list struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the index of OpenAPI: %w", err)
	}
	at, has := list.Paths[name]
	path := "/openapi/v3/" + name
	if !has || at.URL != path && !strings.HasPrefix(at.URL, path+"?") {
		return nil, nil //nolint:nilnil // nil is none
	}
	return map[string]string{name: at.URL}, nil
}

// got is an answer that was read.
type got struct {
	code   int
	header http.Header
	body   []byte
}

// question is what a server behind is asked.
type question struct {
	method, path, query string
	header              http.Header
	body                string
}

// get asks the server behind in a user's name.
func (b *Backend) get(ctx context.Context, u user.Info, path string, header http.Header) (got, error) {
	return b.do(ctx, u, question{method: http.MethodGet, path: path, header: header})
}

// do is get with any method.
func (b *Backend) do(ctx context.Context, u user.Info, q question) (got, error) {
	if b.broken != nil {
		return got{}, b.broken
	}
	at := b.at.URL.JoinPath(q.path)
	at.RawQuery = q.query
	req, err := http.NewRequestWithContext(ctx, q.method, at.String(), strings.NewReader(q.body))
	if err != nil {
		return got{}, fmt.Errorf("ask for %s: %w", q.path, err)
	}
	req.Header = q.header
	resp, err := as(u, b.at).RoundTrip(req)
	if err != nil {
		return got{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is not wanted
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err != nil {
		return got{}, fmt.Errorf("read the answer to %s: %w", q.path, err)
	}
	if len(body) > maxDocument {
		return got{}, errTooLarge
	}
	return got{code: resp.StatusCode, header: resp.Header, body: body}, nil
}

var errTooLarge = errors.New("the document has more than 16 MiB")
