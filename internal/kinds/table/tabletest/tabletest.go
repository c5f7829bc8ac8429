// Package tabletest compares the tables of built-in kinds with what they are to show, in tests.
package tabletest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// now is when objects are shown: 90 minutes after their creation.
func now() time.Time { return time.Date(2026, 5, 1, 13, 30, 0, 0, time.UTC) }

// Parse reads an object in YAML, which is called x and was created at 12:00 unless it says
// otherwise.
func Parse(t *testing.T, body string) *wire.Object {
	t.Helper()
	var content map[string]any
	if err := yaml.UnmarshalStrict([]byte(body), &content); err != nil {
		t.Fatalf("read the object: %v\n%s", err, body)
	}
	metadata := map[string]any{"name": "x", "namespace": "default", "creationTimestamp": "2026-05-01T12:00:00Z"}
	if given, has := content["metadata"].(map[string]any); has {
		maps.Copy(metadata, given)
	}
	if content == nil {
		content = map[string]any{}
	}
	content["metadata"] = metadata
	encoded, err := json.Marshal(content)
	if err != nil {
		t.Fatalf("encode the object: %v", err)
	}
	o, err := wire.NewObject(encoded, 7, []wire.FieldPath{{Label: "status.phase", Path: []string{"status", "phase"}}})
	if err != nil {
		t.Fatalf("make the object: %v\n%s", err, body)
	}
	return o
}

// Of returns the table of one of some resources, "deployments.apps"; an empty one if it is not
// among them.
func Of(all []*kinds.Resource, name string) kinds.Table {
	i := slices.IndexFunc(all, func(r *kinds.Resource) bool { return r.GR().String() == name })
	if i < 0 {
		return kinds.Table{}
	}
	return all[i].Table
}

// Cells are those of an object now.
func Cells(table kinds.Table, o *wire.Object) []any { return kinds.Shown(table.Row(o), now()) }

// Join shows cells as "x | 1/1 | Running".
func Join(cells []any) string {
	shown := make([]string, len(cells))
	for i, c := range cells {
		shown[i] = fmt.Sprint(c)
	}
	return strings.TrimSpace(strings.Join(shown, " | "))
}

// header shows columns as "Name | Ready | IP*"; those that only -o wide has end in "*".
func header(table kinds.Table) string {
	var names []any
	for _, c := range table.Columns {
		names = append(names, c.Name+strings.Repeat("*", int(c.Priority)))
	}
	return Join(names)
}

// Case is what it is about, an object, and its row.
type Case = [3]string

// Check compares the header and the rows of a table.
func Check(t *testing.T, table kinds.Table, columns string, cases []Case) {
	t.Helper()
	if diff := cmp.Diff(columns, header(table)); diff != "" {
		t.Fatalf("columns: -want +got:\n%s", diff)
	}
	for _, c := range cases {
		t.Run(c[0], func(t *testing.T) {
			cells := Cells(table, Parse(t, c[1]))
			if len(cells) != len(table.Columns) {
				t.Fatalf("%d cells for %d columns", len(cells), len(table.Columns))
			}
			if diff := cmp.Diff(c[2], Join(cells)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
