// Package printers shows the built-in kinds as tables: the columns that
// `kubectl get` prints, as kube-apiserver has them (conformance/builtin compares them).
//
// It has one noun. A [Printer] is the columns of one kind and the function that
// computes the cells of one object.
package printers

import (
	"encoding/json"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resources "github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Printer shows objects of one kind. Row returns as many cells as there are
// Columns, as kinds.Resource.Row does; an object that cannot be decoded is shown by its name and "<unknown>".
type Printer struct {
	Columns []metav1.TableColumnDefinition
	Row     func(o *wire.Object) []any
	// ListRow returns the Row of the items of a list, for a kind whose rows depend on the
	// other rows; nil: it is Row.
	ListRow func(items iter.Seq2[*wire.Object, error]) func(o *wire.Object) []any
	// Conditions returns what the row says besides its cells; nil: nothing.
	Conditions func(o *wire.Object) []metav1.TableRowCondition
}

// For returns the printer of a built-in resource, and the default one (Name, Age)
// for any other.
func For(gr schema.GroupResource) Printer {
	for _, group := range []func(string) (Printer, bool){core, storage, workloads, jobs, network, policy, machinery, devices, admission} {
		if p, ok := group(gr.String()); ok {
			return p
		}
	}
	return Default()
}

// Default returns the printer with the columns Name and Age.
func Default() Printer {
	return Printer{Columns: resources.DefaultColumns("string"), Row: resources.DefaultRow}
}

// of builds a printer from a function on the kind's Go type, which returns a cell for each
// of the columns.
func of[T any](cells func(o *T, r row) []any, columns ...column) Printer {
	return ofParts(nil, cells, columns...)
}

// ofParts is of for a kind whose cells need only some parts of an object; nil: all of it. The
// others are not decoded: stored objects were when they were written.
func ofParts[T any](parts *jsontree.Part, cells func(o *T, r row) []any, columns ...column) Printer {
	return Printer{Columns: columns, Row: func(o *wire.Object) []any {
		r := row{name: o.Key().Name, age: resources.Age(o.Created()), created: o.Created()}
		body := o.JSON()
		if parts != nil {
			body = jsontree.Extract(body, parts)
		}
		typed := new(T)
		if err := json.Unmarshal(body, typed); err == nil {
			return cells(typed, r)
		}
		unknown := make([]any, len(columns))
		for i, c := range columns {
			unknown[i] = "<unknown>"
			if c.Name == "Name" {
				unknown[i] = r.name
			}
		}
		return unknown
	}}
}

// row is the metadata that the cells of all kinds may need.
type row struct {
	name    string
	age     any
	created time.Time
}
