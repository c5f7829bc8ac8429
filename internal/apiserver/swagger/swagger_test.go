package swagger_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"

	"github.com/gapless-io/gapless/internal/apiserver/swagger"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin"
	"github.com/gapless-io/gapless/internal/kinds/custom"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// define returns the resources of an established definition.
func define(t testing.TB, kind, properties string) []*kinds.Resource {
	t.Helper()
	plural := strings.ToLower(kind) + "s"
	names := fmt.Sprintf(`{"plural":%q,"singular":%q,"kind":%q,"listKind":%q}`, plural, strings.ToLower(kind), kind, kind+"List")
	resources, err := custom.Resources(fmt.Appendf(nil,
		`{"spec":{"group":"t.example.com","scope":"Namespaced","names":%[1]s,"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":%[2]s}}}]},
"status":{"acceptedNames":%[1]s,"conditions":[{"type":"Established","status":"True"}]}}`, names, properties))
	if err != nil || len(resources) != 1 {
		t.Fatalf("%d resources, %v", len(resources), err)
	}
	return resources
}

func build(t testing.TB, d *swagger.Documents, c *kinds.Catalog, form openapi.Form) *swagger.Document {
	t.Helper()
	doc, err := d.Build(t.Context(), c, nil, form)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return doc
}

// get requests a document with headers "Name: value".
func get(t testing.TB, doc *swagger.Document, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi/v2", nil)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	doc.ServeHTTP(w, r)
	return w
}

func TestBothFormsHaveTheSamePathsAndDefinitions(t *testing.T) {
	d := swagger.New()
	catalog := builtin.Catalog().With(define(t, "Foo", `{"spec":{"type":"object"}}`)...).With(define(t, "Bar", `{}`)...)
	var tree struct {
		Paths, Definitions, Parameters map[string]any
	}
	if err := json.Unmarshal(get(t, build(t, d, catalog, openapi.JSON)).Body.Bytes(), &tree); err != nil {
		t.Fatalf("decode JSON: %v", err)
	}
	var message openapiv2.Document
	if err := proto.Unmarshal(get(t, build(t, d, catalog, openapi.Protobuf)).Body.Bytes(), &message); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	if message.GetSwagger() != "2.0" || len(tree.Paths) < 150 || len(tree.Definitions) < 400 ||
		tree.Definitions["com.example.t.v1.Foo"] == nil {
		t.Errorf("swagger %q, %d paths, %d definitions", message.GetSwagger(), len(tree.Paths), len(tree.Definitions))
	}
	for _, p := range message.GetPaths().GetPath() {
		if tree.Paths[p.GetName()] == nil {
			t.Errorf("path %s is in protobuf only", p.GetName())
		}
	}
	for _, p := range message.GetDefinitions().GetAdditionalProperties() {
		if tree.Definitions[p.GetName()] == nil {
			t.Errorf("definition %s is in protobuf only", p.GetName())
		}
	}
	got := []int{
		len(message.GetPaths().GetPath()), len(message.GetDefinitions().GetAdditionalProperties()),
		len(message.GetParameters().GetAdditionalProperties()),
	}
	if want := []int{len(tree.Paths), len(tree.Definitions), len(tree.Parameters)}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("protobuf has %v paths, definitions and parameters, JSON %v", got, want)
	}
}

func TestTagChangesExactlyWhenTheDocumentDoes(t *testing.T) {
	d := swagger.New()
	tags := map[string]string{} // by document
	before := builtin.Catalog()
	foo := before.With(define(t, "Foo", `{"spec":{"type":"object"}}`)...)
	for i, c := range []*kinds.Catalog{
		before, foo, before.With(define(t, "Foo", `{"spec":{"type":"object"}}`)...),
		before.With(define(t, "Foo", `{"spec":{"type":"string"}}`)...),
		foo.With(define(t, "Bar", `{}`)...), foo, foo.Without(kinds.GroupResource{Group: "t.example.com", Resource: "foos"}),
	} {
		w := get(t, build(t, d, c, openapi.JSON))
		etag := w.Header().Get("Etag")
		for body, tag := range tags {
			if (body == w.Body.String()) != (tag == etag) {
				t.Errorf("document %d: tag %s, an earlier one %s; equal documents: %t", i, etag, tag, body == w.Body.String())
			}
		}
		tags[w.Body.String()] = etag
	}
	if len(tags) != 4 {
		t.Errorf("%d different documents, want 4", len(tags))
	}
}

func TestUnchangedDocumentIsNotModified(t *testing.T) {
	doc := build(t, swagger.New(), builtin.Catalog(), openapi.JSON)
	etag := get(t, doc).Header().Get("Etag")
	for tag, want := range map[string]int{etag: 304, "W/" + etag: 304, `"x", ` + etag: 304, "*": 304, `"x"`: 200} {
		if w := get(t, doc, "If-None-Match: "+tag); w.Code != want || (want == 304) != (w.Body.Len() == 0) ||
			w.Header().Get("Etag") != etag {
			t.Errorf("%s: %d with %d bytes, want %d", tag, w.Code, w.Body.Len(), want)
		}
	}
}

func TestCompressedDocumentIsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	d, catalog := swagger.New(), builtin.Catalog().With(define(t, "Foo", `{}`)...)
	for _, form := range []openapi.Form{openapi.JSON, openapi.Protobuf} {
		doc := build(t, d, catalog, form)
		w := get(t, doc, "Accept-Encoding: gzip")
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatalf("make a reader: %v", err)
		}
		z.Multistream(false)
		unzipped, err := io.ReadAll(z)
		if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%v, headers %v", err, w.Header())
		}
		plain := get(t, doc)
		if !bytes.Equal(unzipped, plain.Body.Bytes()) || plain.Header().Get("Content-Length") != fmt.Sprint(plain.Body.Len()) {
			t.Errorf("form %d: %d bytes from gzip, %d plain, Content-Length %s",
				form, len(unzipped), plain.Body.Len(), plain.Header().Get("Content-Length"))
		}
	}
}

func TestClientsGetTheFormThatTheyPrefer(t *testing.T) {
	const protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	for accept, want := range map[string]openapi.Form{
		"": openapi.JSON, "*/*": openapi.JSON, "application/*": openapi.JSON, "application/json": openapi.JSON,
		protobuf: openapi.Protobuf, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf": openapi.Protobuf,
		protobuf + ",application/json": openapi.Protobuf, protobuf + ";q=0.5, application/json": openapi.JSON,
		"application/json, */*": openapi.JSON, "text/html, */*;q=0.1": openapi.JSON, "text/html": 0, "application/json;q=0": 0,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi/v2", nil)
		if accept != "" {
			r.Header.Set("Accept", accept)
		}
		if got := swagger.Negotiate(r); got != want {
			t.Errorf("%q: form %d, want %d", accept, got, want)
		}
	}
}

func TestConcurrentRequestsBuildOnce(t *testing.T) {
	d, catalog := swagger.New(), builtin.Catalog()
	docs := make([]*swagger.Document, 16)
	var wg sync.WaitGroup
	for i := range docs {
		wg.Go(func() { docs[i], _ = d.Build(t.Context(), catalog, nil, openapi.JSON) })
	}
	wg.Wait()
	for _, doc := range docs {
		if doc == nil || doc != docs[0] {
			t.Fatal("two requests got different documents")
		}
	}
	if d.Built(catalog, nil, openapi.JSON) != docs[0] ||
		d.Built(catalog.With(define(t, "Foo", `{}`)...), nil, openapi.JSON) != nil {
		t.Error("Built returns the document of another catalog, or not that of this one")
	}
}

func TestCanceledRequestDoesNotBuild(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client left")
	cancel(left)
	d, catalog := swagger.New(), builtin.Catalog()
	for range 10 { // the turn is free: select may take it
		if _, err := d.Build(ctx, catalog, nil, openapi.JSON); !errors.Is(err, left) {
			t.Fatalf("%v", err)
		}
	}
	build(t, d, catalog, openapi.JSON)
}

// The memory of documents is bounded: what is kept is compressed.
func TestDocumentsAreKeptCompressed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	catalog := builtin.Catalog()
	for i := range 100 {
		catalog = catalog.With(define(t, fmt.Sprintf("Kind%d", i),
			`{"spec":{"type":"object","properties":{"a":{"type":"string","description":"A."}}}}`)...)
	}
	d := swagger.New()
	for form, most := range map[openapi.Form]int64{openapi.JSON: 600 << 10, openapi.Protobuf: 600 << 10} {
		plain, compressed := build(t, d, catalog, form).Size()
		t.Logf("form %d: %d bytes, %d compressed", form, plain, compressed)
		if compressed > most {
			t.Errorf("form %d keeps %d bytes, want at most %d", form, compressed, most)
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	catalog := builtin.Catalog()
	for i := range 1000 {
		catalog = catalog.With(define(b, fmt.Sprintf("Kind%d", i),
			`{"spec":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}}}}`)...)
	}
	one, other := define(b, "Foo", `{"a":{"type":"string"}}`), define(b, "Foo", `{"a":{"type":"integer"}}`)
	for name, form := range map[string]openapi.Form{"JSON": openapi.JSON, "Protobuf": openapi.Protobuf} {
		b.Run("BuiltIn/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				build(b, swagger.New(), builtin.Catalog(), form)
			}
		})
		b.Run("First1000/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plain, compressed := build(b, swagger.New(), catalog, form).Size()
				b.ReportMetric(float64(plain), "document_B")
				b.ReportMetric(float64(compressed), "kept_B")
			}
		})
		b.Run("ChangeOneOf1000/"+name, func(b *testing.B) {
			b.ReportAllocs()
			d, catalogs := swagger.New(), []*kinds.Catalog{catalog.With(one...), catalog.With(other...)}
			build(b, d, catalogs[0], form)
			for i := 0; b.Loop(); i++ {
				build(b, d, catalogs[(i+1)%2], form)
			}
		})
	}
}
