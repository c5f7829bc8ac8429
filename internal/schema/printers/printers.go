// Package printers shows the built-in kinds as tables: the columns that
// `kubectl get` prints, by the names and in the order that kube-apiserver uses.
//
// It has one noun. A [Printer] is the columns of one kind and the function that
// computes the cells of one object.
package printers

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resources "github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Printer shows objects of one kind. Row returns as many cells as there are
// Columns; an object that cannot be decoded is shown by its name and "<unknown>".
type Printer struct {
	Columns []metav1.TableColumnDefinition
	Row     func(o *kube.Object, now time.Time) []any
}

// For returns the printer of a built-in resource, and the default one (Name, Age)
// for any other.
func For(gr schema.GroupResource) Printer {
	for _, group := range []func(string) (Printer, bool){core, storage, workloads, jobs, network, policy} {
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

// of builds a printer from a column list and a function on the kind's Go type.
// Columns are separated by "|"; those that only `-o wide` shows end in "*". The
// function returns the cells between the name and … including the age where the
// kind shows it; the name comes first unless the first column is another.
func of[T any](list string, cells func(o *T, r row) []any) Printer {
	cols := columns(list)
	return Printer{Columns: cols, Row: func(o *kube.Object, now time.Time) []any {
		r := row{name: o.Key().Name, age: resources.Age(o.Created(), now), created: o.Created(), now: now}
		typed := new(T)
		if err := json.Unmarshal(o.JSON(), typed); err == nil {
			return cells(typed, r)
		}
		unknown := make([]any, len(cols))
		for i := range unknown {
			unknown[i] = "<unknown>"
		}
		unknown[0] = r.name
		return unknown
	}}
}

// row is what every kind's cells may need of the object's metadata.
type row struct {
	name    string
	age     string
	created time.Time
	now     time.Time
}

func columns(list string) []metav1.TableColumnDefinition {
	names := strings.Split(list, "|")
	cols := make([]metav1.TableColumnDefinition, len(names))
	for i, name := range names {
		wide := strings.HasSuffix(name, "*")
		cols[i] = metav1.TableColumnDefinition{Name: strings.TrimSuffix(name, "*"), Type: "string"}
		if wide {
			cols[i].Priority = 1
		}
		if name == "Name" {
			cols[i] = resources.NameColumn()
		}
	}
	return cols
}

func ageOf(t *metav1.Time, now time.Time) string {
	if t == nil {
		return "<none>"
	}
	return resources.Age(t.Time, now)
}

// orNone returns s, or "<none>" for an empty one.
func orNone(s string) string { return or(s, "<none>") }

func or(s, empty string) string {
	if s == "" {
		return empty
	}
	return s
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// text returns the value behind p as text, or def when there is none.
func text[T any](p *T, def string) string {
	if p == nil {
		return def
	}
	return fmt.Sprint(*p)
}

// joinFirst joins at most n of the words and says how many more there are.
func joinFirst(words []string, n int) string {
	if len(words) == 0 {
		return "<none>"
	}
	if len(words) <= n {
		return strings.Join(words, ",")
	}
	return fmt.Sprintf("%s + %d more...", strings.Join(words[:n], ","), len(words)-n)
}
