// Package swagger serves the OpenAPI documents: /openapi/v2, which kubectl before 1.27
// validates with, and those below /openapi/v3.
//
// [Documents] keeps the parts that the document of version 2 is made of: one of
// all built-in kinds, and one of each version of a custom resource. [Groups] keeps the documents
// of version 3, one for each group and version: a part of its built-in kinds, or one of each
// custom resource. A [Document] is parts in one encoding. Parts are kept compressed only, about a
// tenth of the document, and are sent as they are kept. A part of each server behind that has a document of version 2 is
// made of that (behind.go). A part is built when a document is
// requested that has it and kept until its resource changes or goes: after a change of one
// definition, the next request builds the part of that definition. Nothing is built that nobody
// requests.
package swagger

import (
	"context"
	"crypto/sha512"
	"fmt"
	"hash"
	"slices"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/aggregator"
	"github.com/gapless-io/gapless/internal/apiserver/blockzip"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/openapi"
)

// Documents keeps documents and their parts. It is safe for concurrent use.
type Documents struct {
	// turn holds one token: who has it builds, and may use parts.
	turn  chan struct{}
	parts map[key]part
	// The newest documents.
	json, protobuf atomic.Pointer[Document]
}

// key identifies a part; resource is nil for the built-in kinds, which do not change.
type key struct {
	form     openapi.Form
	resource *kinds.Resource
}

// part is a fragment, compressed.
type part struct {
	paths, definitions *blockzip.Block
	sum                [sha512.Size]byte
}

// New returns documents of which nothing is built yet.
func New() *Documents {
	d := &Documents{turn: make(chan struct{}, 1), parts: map[key]part{}}
	d.turn <- struct{}{}
	return d
}

// Built returns the document of a catalog and of servers behind if it is built, else nil.
func (d *Documents) Built(catalog *kinds.Catalog, behind []*aggregator.Swagger, form openapi.Form) *Document {
	if doc := d.newest(form).Load(); doc != nil && doc.catalog == catalog && slices.Equal(doc.behind, behind) {
		return doc
	}
	return nil
}

func (d *Documents) newest(form openapi.Form) *atomic.Pointer[Document] {
	if form == openapi.Protobuf {
		return &d.protobuf
	}
	return &d.json
}

// Build returns the document of a catalog and of servers behind, and builds the parts that are missing. Of several
// callers one builds and the others wait, until ctx ends.
func (d *Documents) Build(
	ctx context.Context, catalog *kinds.Catalog, behind []*aggregator.Swagger, form openapi.Form,
) (*Document, error) {
	select {
	case <-d.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { d.turn <- struct{}{} }()
	if doc := d.Built(catalog, behind, form); doc != nil {
		return doc, nil
	}
	parts, err := d.partsOf(ctx, catalog, form)
	if err != nil {
		return nil, err
	}
	var parameters [][]byte
	if len(behind) > 0 {
		here := parts
		if form != openapi.JSON { // these can be compared
			if here, err = d.partsOf(ctx, catalog, openapi.JSON); err != nil {
				return nil, err
			}
		}
		others, err := merge(form, here, behind)
		if err != nil {
			return nil, fmt.Errorf("build the OpenAPI v2 document: %w", err)
		}
		parts, parameters = append(parts, others.parts...), others.parameters
	}
	doc, err := assemble(form, parts, parameters)
	if err != nil {
		return nil, err
	}
	doc.catalog, doc.behind = catalog, behind
	d.newest(form).Store(doc)
	return doc, nil
}

// partsOf returns the parts of the document of a catalog, and forgets those of others in the form.
func (d *Documents) partsOf(ctx context.Context, catalog *kinds.Catalog, form openapi.Form) ([]part, error) {
	resources := slices.DeleteFunc(slices.Clone(catalog.Resources()), func(r *kinds.Resource) bool { return !r.Custom })
	parts := make([]part, 0, len(resources)+1)
	used := map[key]bool{}
	for _, r := range append([]*kinds.Resource{nil}, resources...) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx) // what is built is kept
		}
		k := key{form, r}
		p, ok := d.parts[k]
		if !ok {
			var err error
			if p, err = build(k, catalog); err != nil {
				return nil, err
			}
			d.parts[k] = p
		}
		parts = append(parts, p)
		used[k] = true
	}
	for k := range d.parts {
		if k.form == form && !used[k] {
			delete(d.parts, k)
		}
	}
	return parts, nil
}

func build(k key, catalog *kinds.Catalog) (part, error) {
	var f openapi.Fragment
	var err error
	if k.resource == nil {
		f, err = openapi.BuiltIn(k.form, catalog.Resources())
	} else {
		f, err = openapi.Custom(k.form, k.resource)
	}
	if err != nil {
		return part{}, fmt.Errorf("build the OpenAPI v2 document: %w", err)
	}
	if k.form == openapi.JSON && k.resource != nil {
		f = behindOthers(f)
	}
	return newPart(f), nil
}

// behindOthers returns a fragment in JSON that has the built-in part before it.
func behindOthers(f openapi.Fragment) openapi.Fragment {
	for _, members := range []*[]byte{&f.Paths, &f.Definitions} {
		if len(*members) > 0 {
			*members = append([]byte{','}, *members...)
		}
	}
	return f
}

func newPart(f openapi.Fragment) part {
	sum := sha512.New()
	write(sum, f.Paths)
	write(sum, f.Definitions)
	p := part{paths: compressed(f.Paths), definitions: compressed(f.Definitions)}
	sum.Sum(p.sum[:0])
	return p
}

// write adds a run of bytes and its length to a hash, which does not fail.
func write(h hash.Hash, p []byte) {
	_, _ = fmt.Fprintf(h, "%d:", len(p))
	_, _ = h.Write(p)
}

func compressed(p []byte) *blockzip.Block {
	return blockzip.Compress(func(add func([]byte)) { add(p) })
}

// assemble puts the parts into their frame, which has further parameters.
func assemble(form openapi.Form, parts []part, parameters [][]byte) (*Document, error) {
	var paths, definitions int64
	for _, p := range parts {
		n, _ := p.paths.Size()
		paths += n
		n, _ = p.definitions.Size()
		definitions += n
	}
	frame, err := form.Frame(int(paths), int(definitions))
	if err == nil {
		frame, err = form.With(frame, parameters)
	}
	if err != nil {
		return nil, fmt.Errorf("build the OpenAPI v2 document: %w", err)
	}
	doc := &Document{form: form, blocks: []*blockzip.Block{compressed(frame.Begin)}}
	sum := sha512.New()
	write(sum, frame.Begin)
	write(sum, frame.End)
	for _, p := range parts {
		doc.blocks = append(doc.blocks, p.paths)
		_, _ = sum.Write(p.sum[:])
	}
	doc.blocks = append(doc.blocks, compressed(frame.Middle))
	for _, p := range parts {
		doc.blocks = append(doc.blocks, p.definitions)
	}
	doc.blocks = append(doc.blocks, compressed(frame.End))
	doc.etag = fmt.Sprintf(`"%X"`, sum.Sum(nil))
	return doc, nil
}
