// Package table shows objects as rows of text: what the kinds of all groups make their tables
// of, which are those that `kubectl get` prints. Columns and cells are kube-apiserver's
// (conformance/builtin compares them).
package table

import (
	"bytes"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// The minor versions of Kubernetes 1 whose tables were compared: those of 1.33.0, 1.34.0, 1.35.0 and
// 1.36.0 with 1.37.2 (pkg/printers/internalversion/printers.go and what it calls).
const (
	// Oldest is what kinds.Table.RowsSince is of kinds whose cells have not changed since.
	Oldest = 33
	// Newest is the minor version whose cells these are.
	Newest = 37
)

// Default is the table with the columns Name and Age.
func Default() kinds.Table {
	return kinds.Table{Columns: kinds.DefaultColumns("string"), Row: kinds.DefaultRow}
}

// Created is the table with the columns Name and Created At.
func Created() kinds.Table { return Of(createdCells, createdAt()...) }

// createdCells are the cells of createdAt.
func createdCells(_ *metav1.PartialObjectMetadata, r Meta) []any {
	return []any{r.Name, Stamp(r.Created)}
}

// Of makes a table of a function on the kind's Go type, which returns a cell for each
// of the columns.
func Of[T any](cells func(o *T, r Meta) []any, columns ...Column) kinds.Table {
	return OfParts(nil, cells, columns...)
}

// OfParts is Of for a kind whose cells need only some parts of an object; nil: all of it. The
// others are not decoded: stored objects were when they were written. An object that cannot be
// decoded is shown by its name and "<unknown>".
func OfParts[T any](parts *jsontree.Part, cells func(o *T, r Meta) []any, columns ...Column) kinds.Table {
	living := parts.Without("metadata", "deletionTimestamp")
	return kinds.Table{Columns: columns, Row: func(o *wire.Object) []any {
		r := Meta{Name: o.Key().Name, Age: kinds.Age(o.Created()), Created: o.Created()}
		typed, needed := new(T), parts
		if !o.Deleting() {
			needed = living
		}
		if err := decode(o, needed, typed); err == nil {
			return cells(typed, r)
		}
		unknown := make([]any, len(columns))
		for i, c := range columns {
			unknown[i] = "<unknown>"
			if c.Name == "Name" {
				unknown[i] = r.Name
			}
		}
		return unknown
	}}
}

// asStored makes json.Unmarshal decode as encoding/json does, in half of its time.
//
//nolint:gochecknoglobals // constant
var asStored = jsonv1.DefaultOptionsV1()

// scratch is memory for the text of an object, which encoding/json copies from.
type scratch struct {
	text, needed []byte
	parts        [][]byte
}

//nolint:gochecknoglobals // memory that is used again, by all tables of a process
var scratches = sync.Pool{New: func() any { return &scratch{} }}

// read reads the text of an object, without its metadata if nothing of that is needed, which is most of many objects.
func (s *scratch) read(o *wire.Object, parts *jsontree.Part) {
	if content := o.Content(); len(content) > 0 && !parts.Has("metadata") {
		s.text = append(append(s.text[:0], '{'), bytes.TrimPrefix(content, []byte{','})...)
		return
	}
	s.text = s.text[:0]
	s.parts = o.Parts(s.parts[:0])
	for _, part := range s.parts {
		s.text = append(s.text, part...)
	}
	clear(s.parts) // not to keep objects
}

// decode decodes parts of an object, or all of it.
func decode(o *wire.Object, parts *jsontree.Part, typed any) error {
	if parts == nil {
		return json.Unmarshal(o.JSON(), typed, asStored)
	}
	s := scratches.Get().(*scratch) //nolint:forcetypeassert // the pool holds nothing else
	defer scratches.Put(s)
	s.read(o, parts)
	needed := jsontree.ExtractInto(s.needed, s.text, parts)
	if len(needed) > 0 && &needed[0] != &s.text[0] {
		s.needed = needed
	}
	return json.Unmarshal(needed, typed, asStored)
}

// Meta is the metadata that the cells of all kinds may need.
type Meta struct {
	Name    string
	Age     any
	Created time.Time
}
