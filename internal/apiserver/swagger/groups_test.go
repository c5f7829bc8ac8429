package swagger_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gapless-io/gapless/internal/apiserver/swagger"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
)

// ask requests a path with headers "Name: value".
func ask(t testing.TB, g *swagger.Groups, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, swagger.Path3), "/")
	doc, known := g.Built(name)
	if !known {
		var err error
		if doc, err = g.Build(t.Context(), name); err != nil {
			t.Errorf("build: %v", err)
		}
	}
	if doc == nil {
		w.Code = http.StatusNotFound
	} else {
		doc.ServeNamed(w, r, name)
	}
	return w
}

// addresses are those of all documents, by their names.
func addresses(t testing.TB, h *swagger.Groups) map[string]string {
	t.Helper()
	var index struct {
		Paths map[string]struct{ ServerRelativeURL string }
	}
	if w := ask(t, h, "/openapi/v3"); w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &index) != nil {
		t.Fatalf("%d %.200s", w.Code, w.Body)
	}
	all := map[string]string{}
	for name, entry := range index.Paths {
		all[name] = entry.ServerRelativeURL
	}
	return all
}

func TestIndexListsEveryGroupVersionWithItsHash(t *testing.T) {
	h := swagger.NewGroups(kinds.NewLive(builtin.Catalog().With(define(t, "Foo", `{}`)...)))
	all := addresses(t, h)
	for _, name := range []string{"api", "api/v1", "apis", "apis/apps", "apis/apps/v1", "apis/t.example.com/v1", "version"} {
		url := all[name]
		path, hash, _ := strings.Cut(url, "?hash=")
		if path != "/openapi/v3/"+name || len(hash) != 128 || strings.ToUpper(hash) != hash {
			t.Errorf("%s: address %q", name, url)
		}
		w := ask(t, h, url)
		if h := w.Header(); w.Code != http.StatusOK || h.Get("Cache-Control") != "public, immutable" ||
			h.Get("Etag") != `"`+hash+`"` || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d, %v", url, w.Code, h)
		}
		if expires, err := http.ParseTime(w.Header().Get("Expires")); err != nil || time.Until(expires) < 300*24*time.Hour {
			t.Errorf("%s expires %v, %v", url, expires, err)
		}
		if w := ask(t, h, path+"?hash=old"); w.Code != http.StatusMovedPermanently || w.Header().Get("Location") != url {
			t.Errorf("%s: an old hash is answered %d to %q", name, w.Code, w.Header().Get("Location"))
		}
		if w := ask(t, h, path); w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "" {
			t.Errorf("%s without a hash: %d, %v", name, w.Code, w.Header())
		}
		if w := ask(t, h, path, `If-None-Match: "`+hash+`"`); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
			t.Errorf("%s: %d for its tag", name, w.Code)
		}
	}
	if again := addresses(t,
		swagger.NewGroups(kinds.NewLive(builtin.Catalog().With(define(t, "Foo", `{}`)...)))); !maps.Equal(all, again) {
		t.Error("another server has other addresses for the same documents")
	}
	if all["apis/t.example.com"] != "" {
		t.Error("a group without built-in kinds has a document, which upstream does not have")
	}
	for _, unknown := range []string{"apis/none.example.com/v1", "api/v2", "x"} {
		if w := ask(t, h, "/openapi/v3/"+unknown); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", unknown, w.Code)
		}
	}
}

// TestAddressesChangeExactlyWhenTheirDocumentsDo, whatever happens to other resources, and a document
// that was built before the index is the one that the index names.
func TestAddressesChangeExactlyWhenTheirDocumentsDo(t *testing.T) {
	live := kinds.NewLive(builtin.Catalog())
	h := swagger.NewGroups(live)
	const foos = "apis/t.example.com/v1"
	seen := map[string]string{} // documents by their addresses
	bodies := map[string]bool{}
	step := func(when string, change func(c *kinds.Catalog) *kinds.Catalog) {
		t.Helper()
		live.Store(change(live.Load()))
		first := ask(t, h, "/openapi/v3/"+foos)
		all := addresses(t, h)
		for name, url := range all {
			if name != foos && !strings.HasSuffix(name, "apps/v1") {
				continue
			}
			body := ask(t, h, url).Body.String()
			if seen[url] != "" && seen[url] != body {
				t.Errorf("%s: %s has changed, and its address has not", when, name)
			}
			seen[url] = body
			bodies[body] = true
			if name == foos && (first.Code != http.StatusOK || first.Body.String() != body) {
				t.Errorf("%s: %d before the index", when, first.Code)
			}
		}
		if all[foos] == "" && first.Code != http.StatusNotFound {
			t.Errorf("%s: the index has no %s, which is answered %d", when, foos, first.Code)
		}
	}
	with := func(kind, properties string) func(c *kinds.Catalog) *kinds.Catalog {
		return func(c *kinds.Catalog) *kinds.Catalog { return c.With(define(t, kind, properties)...) }
	}
	step("at first", func(c *kinds.Catalog) *kinds.Catalog { return c })
	step("one", with("Foo", `{"a":{"type":"string"}}`))
	step("two", with("Bar", `{}`))
	step("changed", with("Foo", `{"a":{"type":"integer"}}`))
	step("the same again", with("Foo", `{"a":{"type":"integer"}}`))
	step("one removed", func(c *kinds.Catalog) *kinds.Catalog {
		return c.Without(kinds.GroupResource{Group: "t.example.com", Resource: "bars"})
	})
	step("none", func(c *kinds.Catalog) *kinds.Catalog {
		return c.Without(kinds.GroupResource{Group: "t.example.com", Resource: "foos"})
	})
	if len(seen) != len(bodies) || len(bodies) != 5 { // that of apps, and 4 of foos
		t.Errorf("%d addresses of %d documents, want 5", len(seen), len(bodies))
	}
}

// TestDocumentsAreBuiltOnce: whether the index was requested before or not, and however often the
// document of another version changes.
func TestDocumentsAreBuiltOnce(t *testing.T) {
	live := kinds.NewLive(builtin.Catalog())
	g := swagger.NewGroups(live)
	if _, known := g.Built("apis/apps/v1"); known {
		t.Error("a document is known before it is built")
	}
	apps, err := g.Build(t.Context(), "apis/apps/v1")
	if err != nil || apps == nil {
		t.Fatal(apps, err)
	}
	for _, when := range []string{"built", "with the index", "after a change"} {
		if when == "after a change" {
			live.Store(live.Load().With(define(t, "Foo", `{}`)...))
			if doc, known := g.Built("apis/apps/v1"); known {
				t.Errorf("%v is known, of an earlier catalog", doc)
			}
		}
		if when != "built" {
			if _, err := g.Build(t.Context(), ""); err != nil {
				t.Fatalf("build: %v", err)
			}
		}
		if doc, known := g.Built("apis/apps/v1"); !known || doc != apps {
			t.Errorf("%s: known: %t, the same: %t", when, known, doc == apps)
		}
		if _, known := g.Built(""); known != (when != "built") {
			t.Errorf("%s: the index is known: %t", when, known)
		}
		if doc, known := g.Built("apis/none/v1"); doc != nil || known != (when != "built") {
			t.Errorf("%s: an unknown document: %v, %t", when, doc, known)
		}
	}
}

// TestDocumentOfManyDefinitionsHasAll of their paths and definitions, compressed or not.
func TestDocumentOfManyDefinitionsHasAll(t *testing.T) {
	catalog := builtin.Catalog()
	for i := range 20 {
		catalog = catalog.With(define(t, fmt.Sprintf("Kind%d", i), `{}`)...)
	}
	h := swagger.NewGroups(kinds.NewLive(catalog))
	plain := ask(t, h, "/openapi/v3/apis/t.example.com/v1").Body.Bytes()
	zip, err := gzip.NewReader(ask(t, h, "/openapi/v3/apis/t.example.com/v1", "Accept-Encoding: gzip").Body)
	if err != nil {
		t.Fatalf("make a reader: %v", err)
	}
	if unzipped, err := io.ReadAll(zip); err != nil || !bytes.Equal(unzipped, plain) {
		t.Errorf("%d bytes from gzip, %d plain, %v", len(unzipped), len(plain), err)
	}
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(plain, &doc); err != nil || doc.OpenAPI != "3.0.0" {
		t.Fatalf("OpenAPI %q, %v", doc.OpenAPI, err)
	}
	for i := range 20 {
		name := fmt.Sprintf("com.example.t.v1.Kind%d", i)
		path := fmt.Sprintf("/apis/t.example.com/v1/namespaces/{namespace}/kind%ds", i)
		if doc.Components.Schemas[name] == nil || doc.Components.Schemas[name+"List"] == nil || doc.Paths[path]["post"] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if doc.Components.Schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"] == nil {
		t.Error("what the definitions refer to is missing")
	}
}

// TestConcurrentRequestsOfVersion3GetOneDocument while definitions change.
func TestConcurrentRequestsOfVersion3GetOneDocument(t *testing.T) {
	catalogs := []*kinds.Catalog{
		builtin.Catalog().With(define(t, "Foo", `{}`)...), builtin.Catalog().With(define(t, "Bar", `{}`)...),
	}
	live := kinds.NewLive(catalogs[0])
	h := swagger.NewGroups(live)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 5 {
				live.Store(catalogs[i%2])
				if name := []string{
					"", "/apis/t.example.com/v1", "/api/v1",
				}[i%3]; ask(t, h, "/openapi/v3"+name).Code != http.StatusOK {
					t.Errorf("%q is not found", name)
				}
			}
		})
	}
	wg.Wait()
}

// sizes returns the size of all documents, and of their compressed forms.
func sizes(t testing.TB, g *swagger.Groups) (plain, compressed int64) {
	t.Helper()
	for name := range addresses(t, g) {
		doc, _ := g.Built(name)
		p, c := doc.Size()
		plain, compressed = plain+p, compressed+c
	}
	return plain, compressed
}

// TestDocumentsOfVersion3AreKeptCompressed: their memory is bounded.
func TestDocumentsOfVersion3AreKeptCompressed(t *testing.T) {
	catalog := builtin.Catalog()
	for i := range 100 {
		catalog = catalog.With(define(t, fmt.Sprintf("Kind%d", i),
			`{"spec":{"type":"object","properties":{"a":{"type":"string","description":"A."}}}}`)...)
	}
	h := swagger.NewGroups(kinds.NewLive(catalog))
	plain, kept := sizes(t, h)
	t.Logf("%d bytes, %d compressed", plain, kept)
	if kept > 2<<20 {
		t.Errorf("%d bytes are kept, want at most 2 MiB", kept)
	}
}

func BenchmarkBuildVersion3(b *testing.B) {
	for name, document := range map[string]string{"Index": "", "Core": "api/v1"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := swagger.NewGroups(kinds.NewLive(builtin.Catalog())).Build(b.Context(), document); err != nil {
					b.Fatalf("build make a groups: %v", err)
				}
			}
		})
	}
}
