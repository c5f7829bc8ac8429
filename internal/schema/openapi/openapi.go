// Package openapi writes the OpenAPI documents of a catalog, v3 and v2: what kubectl
// needs for apply, for validation and for explain.
//
// It has five nouns. [Documents] serves the index at /openapi/v3 and one document
// per group and version below it, from the Go types of the built-in kinds
// (fields, types, descriptions, patch strategies) and from the schemas of custom
// resources. A document is created by its first request and kept until the catalog
// changes. The one document of v2 consists of [Fragment] values, one of all built-in kinds
// and one of each custom resource, in a [Frame], in a [Form]: JSON or protobuf. The markers
// of a type are what upstream's document says about it and its Go fields do not.
package openapi

import (
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gapless-io/gapless/internal/schema"
)

const prefix = "/openapi/v3"

// Documents is an http.Handler for /openapi/v3 and everything below it. It is
// safe for concurrent use.
type Documents struct {
	live *schema.Live

	mu sync.Mutex
	// mu guards the documents of one catalog.
	catalog *schema.Catalog
	docs    map[string]document // by path below the prefix: "api/v1", "apis/apps/v1"
}

type document struct {
	body []byte
	hash string // upper-case hex SHA-512 of body, as upstream names documents
}

// New returns a handler for the documents of whatever catalog live holds.
func New(live *schema.Live) *Documents { return &Documents{live: live} }

// ServeHTTP answers the index and the documents as JSON. A hash parameter that
// is not the document's is answered with a redirect to the right one, one that
// matches makes the answer cacheable without expiry.
func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	docs, err := d.current()
	if err != nil {
		http.Error(w, fmt.Sprintf("write OpenAPI documents: %v", err), http.StatusInternalServerError)
		return
	}
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, prefix), "/")
	if name == "" {
		writeIndex(w, r, docs)
		return
	}
	doc, ok := docs[name]
	if !ok {
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	w.Header().Set("Vary", "Accept, Accept-Encoding")
	if hash := r.URL.Query().Get("hash"); hash != "" && hash != doc.hash {
		http.Redirect(w, r, location(name, doc), http.StatusMovedPermanently)
		return
	} else if hash != "" {
		w.Header().Set("Cache-Control", "public, immutable, max-age=31536000")
	}
	write(w, r, doc)
}

func writeIndex(w http.ResponseWriter, r *http.Request, docs map[string]document) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	index := struct {
		Paths map[string]entry `json:"paths"`
	}{Paths: make(map[string]entry, len(docs))}
	for name, doc := range docs {
		index.Paths[name] = entry{URL: location(name, doc)}
	}
	body, err := json.Marshal(index)
	if err != nil {
		http.Error(w, fmt.Sprintf("write OpenAPI index: %v", err), http.StatusInternalServerError)
		return
	}
	write(w, r, newDocument(body))
}

func location(name string, doc document) string { return prefix + "/" + name + "?hash=" + doc.hash }

func newDocument(body []byte) document {
	return document{body: body, hash: fmt.Sprintf("%X", sha512.Sum512(body))}
}

// write answers with the document, or 304, compressed where the client accepts it.
func write(w http.ResponseWriter, r *http.Request, doc document) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Etag", `"`+doc.hash+`"`)
	if r.Header.Get("If-None-Match") == `"`+doc.hash+`"` {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(doc.body) // the client has left
		return
	}
	h.Set("Content-Encoding", "gzip")
	zip := gzip.NewWriter(w)
	_, _ = zip.Write(doc.body) // as above
	_ = zip.Close()
}

// current returns the documents of the catalog in force, making them first if
// the catalog is new.
func (d *Documents) current() (map[string]document, error) {
	catalog := d.live.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.catalog == catalog {
		return d.docs, nil
	}
	byGV := map[string][]*schema.Resource{}
	for _, r := range catalog.Resources() {
		name := strings.TrimPrefix(basePath(r), "/")
		byGV[name] = append(byGV[name], r)
	}
	docs := make(map[string]document, len(byGV))
	for name, resources := range byGV {
		body, err := render(resources)
		if err != nil {
			return nil, fmt.Errorf("document %s: %w", name, err)
		}
		docs[name] = newDocument(body)
	}
	d.catalog, d.docs = catalog, docs
	return docs, nil
}

// basePath returns "/api/v1" or "/apis/group/version".
func basePath(r *schema.Resource) string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}
