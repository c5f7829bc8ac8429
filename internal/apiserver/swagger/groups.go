package swagger

import (
	"context"
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// Path3 is the path of the index of OpenAPI v3. The documents are below it.
const Path3 = "/openapi/v3"

// Groups keeps the documents of OpenAPI v3, one for each group and version, and their index. It is safe
// for concurrent use.
type Groups struct {
	live *kinds.Live
	// turn holds one token: who has it builds, and may use kept and parts.
	turn chan struct{}
	// kept are the documents of the newest catalog that were requested, and parts what those of
	// custom resources consist of.
	kept    map[string]*Document
	parts   map[*kinds.Resource]part
	catalog *kinds.Catalog
	// What is built of the newest catalog.
	index  atomic.Pointer[index]
	merged atomic.Pointer[mergedIndex]
}

// index has documents of a catalog. It is immutable.
type index struct {
	catalog   *kinds.Catalog
	documents map[string]*Document
	list      *Document // all documents; nil as long as some are missing
}

// NewGroups returns the documents of the catalog that is in force at the time of a request, of
// which nothing is built yet.
func NewGroups(live *kinds.Live) *Groups {
	g := &Groups{live: live, turn: make(chan struct{}, 1), kept: map[string]*Document{}, parts: map[*kinds.Resource]part{}}
	g.turn <- struct{}{}
	return g
}

// Built returns a document by its name below /openapi/v3, such as "apis/apps/v1", and the index for "". It
// reports whether it knows: if not, the document may have to be built.
func (g *Groups) Built(name string) (doc *Document, known bool) {
	all := g.index.Load()
	if all == nil || all.catalog != g.live.Load() {
		return nil, false
	}
	if name == "" {
		return all.list, all.list != nil
	}
	doc = all.documents[name]
	return doc, doc != nil || all.list != nil
}

// Build returns a document as Built does, nil if there is none of this name, and builds what is missing:
// for the index all documents. Of several callers one builds and the others wait, until ctx ends.
func (g *Groups) Build(ctx context.Context, name string) (*Document, error) {
	select {
	case <-g.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { g.turn <- struct{}{} }()
	if doc, known := g.Built(name); known {
		return doc, nil // somebody else has built it meanwhile
	}
	catalog := g.live.Load()
	named := documentsOf(catalog)
	if g.catalog != catalog {
		g.forget(named)
		g.catalog = catalog
	}
	if name != "" {
		resources, ok := named[name]
		if !ok {
			return nil, nil //nolint:nilnil // nil is no document
		}
		doc, err := g.build(name, resources)
		if err != nil {
			return nil, err
		}
		g.index.Store(&index{catalog: catalog, documents: maps.Clone(g.kept)})
		return doc, nil
	}
	for name, resources := range named {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // what is built is kept
		}
		if _, err := g.build(name, resources); err != nil {
			return nil, err
		}
	}
	all, err := list(g.kept, nil)
	if err != nil {
		return nil, err
	}
	g.index.Store(&index{catalog: catalog, documents: maps.Clone(g.kept), list: all})
	return all, nil
}

// ServeNamed answers GET and HEAD with a document of version 3, or 304. A hash parameter that is not the
// document's is answered with a redirect to the right one; with the right one the answer may be
// kept for a year.
func (d *Document) ServeNamed(w http.ResponseWriter, r *http.Request, name string) {
	hash := r.URL.Query().Get("hash")
	if hash != "" && hash != d.hash() && name != "" {
		http.Redirect(w, r, location(name, d), http.StatusMovedPermanently)
		return
	}
	if hash != "" && name != "" {
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	d.ServeHTTP(w, r)
}

func location(name string, doc *Document) string {
	return Path3 + "/" + name + "?hash=" + doc.hash()
}

// documentsOf returns the names of the documents of a catalog with the resources that they are about:
// all of a group and version, none for what says which versions there are.
func documentsOf(catalog *kinds.Catalog) map[string][]*kinds.Resource {
	named := map[string][]*kinds.Resource{"api": nil, "apis": nil, "version": nil}
	for _, r := range catalog.Resources() {
		name := openapi.Document3(r)
		named[name] = append(named[name], r)
		if !r.Custom && r.Group != "" {
			named["apis/"+r.Group] = nil
		}
	}
	for _, resources := range named {
		slices.SortFunc(resources, func(a, b *kinds.Resource) int { return strings.Compare(a.Plural, b.Plural) })
	}
	return named
}

// forget drops what the documents with these resources do not consist of.
func (g *Groups) forget(named map[string][]*kinds.Resource) {
	used := map[*kinds.Resource]bool{}
	for _, resources := range named {
		for _, r := range resources {
			used[r] = true
		}
	}
	maps.DeleteFunc(g.parts, func(r *kinds.Resource, _ part) bool { return !used[r] })
	maps.DeleteFunc(g.kept, func(name string, doc *Document) bool {
		resources, ok := named[name]
		return !ok || !slices.Equal(resources, doc.resources)
	})
}

// build returns a document, built from the parts that are kept.
func (g *Groups) build(name string, resources []*kinds.Resource) (*Document, error) {
	if doc := g.kept[name]; doc != nil {
		return doc, nil
	}
	fragments, err := g.partsOf(name, resources)
	if err != nil {
		return nil, fmt.Errorf("document %s: %w", name, err)
	}
	frame, err := openapi.Frame3(len(resources) > 0 && resources[0].Custom)
	if err != nil {
		return nil, fmt.Errorf("document %s: %w", name, err)
	}
	doc := assemble3(frame, fragments)
	doc.resources = resources
	g.kept[name] = doc
	return doc, nil
}

func (g *Groups) partsOf(name string, resources []*kinds.Resource) ([]part, error) {
	one := func(f openapi.Fragment, err error) ([]part, error) {
		if err != nil {
			return nil, err
		}
		return []part{newPart(f)}, nil
	}
	switch {
	case len(resources) == 0:
		return one(openapi.Discovery3(name))
	case !resources[0].Custom:
		return one(openapi.BuiltIn3(resources))
	}
	parts, err := one(openapi.Shared3(resources))
	if err != nil {
		return nil, err
	}
	for _, r := range resources {
		p, ok := g.parts[r]
		if !ok {
			f, err := openapi.Custom(openapi.JSON3, r)
			if err != nil {
				return nil, err
			}
			p = newPart(f)
			g.parts[r] = p
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// assemble3 puts parts into their frame.
func assemble3(frame openapi.Frame, parts []part) *Document {
	doc := &Document{form: openapi.JSON3}
	separator := blockzip.Plain(frame.Separator)
	run := func(begin []byte, of func(p part) *blockzip.Block) {
		doc.blocks = append(doc.blocks, blockzip.Plain(begin))
		first := true
		for _, p := range parts {
			block := of(p)
			if size, _ := block.Size(); size == 0 {
				continue
			}
			if !first {
				doc.blocks = append(doc.blocks, separator)
			}
			doc.blocks, first = append(doc.blocks, block), false
		}
	}
	run(frame.Begin, func(p part) *blockzip.Block { return p.paths })
	run(frame.Middle, func(p part) *blockzip.Block { return p.definitions })
	doc.blocks = append(doc.blocks, blockzip.Plain(frame.End))
	sum := sha512.New()
	write(sum, frame.Begin)
	write(sum, frame.End)
	for _, p := range parts {
		_, _ = sum.Write(p.sum[:])
	}
	doc.etag = fmt.Sprintf(`"%X"`, sum.Sum(nil))
	return doc
}

// With returns the index of the documents that are here, with those that other servers have; the index if there are none.
func (g *Groups) With(here *Document, behind *aggregator.Versions) *Document {
	if behind == nil || len(behind.Paths) == 0 {
		return here
	}
	all := g.index.Load()
	if all == nil || all.list != here {
		return here // the catalog changes just now
	}
	if known := g.merged.Load(); known != nil && known.here == here && known.behind == behind {
		return known.list
	}
	both, err := list(all.documents, behind.Paths)
	if err != nil {
		return here
	}
	g.merged.Store(&mergedIndex{here: here, behind: behind, list: both})
	return both
}

// mergedIndex is an index with the documents of other servers.
type mergedIndex struct {
	here   *Document
	behind *aggregator.Versions
	list   *Document
}

// list returns the index of documents, and of others by where they are.
func list(documents map[string]*Document, others map[string]string) (*Document, error) {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	of := struct {
		Paths map[string]entry `json:"paths"`
	}{Paths: make(map[string]entry, len(documents))}
	for name, doc := range documents {
		of.Paths[name] = entry{URL: location(name, doc)}
	}
	for name, at := range others {
		of.Paths[name] = entry{URL: at}
	}
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("encode the index: %w", err)
	}
	return &Document{
		form: openapi.JSON3, etag: fmt.Sprintf(`"%X"`, sha512.Sum512(text)), blocks: []*blockzip.Block{compressed(text)},
	}, nil
}
