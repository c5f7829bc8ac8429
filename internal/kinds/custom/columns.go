package custom

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/jsonpath"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// columns returns the table columns of a version and the function that computes a
// row; name and age when the version has no columns of its own, or such that
// cannot be read.
func columns(own []apiextensionsv1.CustomResourceColumnDefinition) ([]metav1.TableColumnDefinition, func(*wire.Object) []any) {
	if len(own) == 0 || parsePaths(own) == nil {
		return kinds.DefaultColumns("date"), kinds.DefaultRow
	}
	heads := []metav1.TableColumnDefinition{kinds.NameColumn()}
	for _, c := range own {
		description := c.Description
		if description == "" {
			description = "Custom resource definition column (in JSONPath format): " + c.JSONPath
		}
		heads = append(heads, metav1.TableColumnDefinition{
			Name: c.Name, Type: c.Type, Format: c.Format, Description: description, Priority: c.Priority,
		})
	}
	// Evaluating a path changes it, so rows that are computed at the same time have
	// each their own.
	pool := &sync.Pool{New: func() any { return &paths{parsePaths(own)} }}
	parts := columnParts(own)
	row := func(o *wire.Object) []any {
		cells := make([]any, 1, len(heads))
		cells[0] = o.Key().Name
		content, err := jsontree.Decode(jsontree.Extract(o.JSON(), parts))
		if err != nil {
			return append(cells, make([]any, len(own))...)
		}
		mine, _ := pool.Get().(*paths)
		defer pool.Put(mine)
		for i, path := range mine.columns {
			cells = append(cells, cell(path, own[i].Type, content))
		}
		return cells
	}
	return heads, row
}

// columnParts returns what columns need of an object: along each path up to the first step
// that is not the name of a member. Of a path in an unusual form it is not known.
func columnParts(own []apiextensionsv1.CustomResourceColumnDefinition) *jsontree.Part {
	var needed []string
	for _, c := range own {
		found := usualPath.FindStringSubmatch(c.JSONPath)
		if found == nil {
			return jsontree.Whole()
		}
		needed = append(needed, found[1][1:])
	}
	return jsontree.Parts(needed...)
}

// usualPath matches members, such as .spec.secretName, and behind them items, such as [0],
// [*] or [?(@.type=="Ready")], and members of these. The submatch is the members before the
// first item.
var usualPath = regexp.MustCompile(`^((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)` +
	`(?:\[(?:\d+|\*|\?\(@(?:\.[A-Za-z0-9_-]+)+\s*==\s*(?:"[^"\\]*"|'[^'\\]*')\))\](?:\.[A-Za-z0-9_-]+)*)*$`)

// rowsOf identifies the row function of columns: see kinds.Resource.Rows.
func rowsOf(own []apiextensionsv1.CustomResourceColumnDefinition) string {
	var b strings.Builder
	for _, c := range own {
		fmt.Fprintf(&b, "%s%q", c.Type, c.JSONPath)
	}
	return b.String()
}

// paths are the JSON paths of a version's own columns.
type paths struct{ columns []*jsonpath.JSONPath }

// parsePaths returns the JSON paths of columns; nil when one cannot be parsed.
func parsePaths(own []apiextensionsv1.CustomResourceColumnDefinition) []*jsonpath.JSONPath {
	parsed := make([]*jsonpath.JSONPath, 0, len(own))
	for _, c := range own {
		path := jsonpath.New(c.Name).AllowMissingKeys(true)
		if err := path.Parse("{" + c.JSONPath + "}"); err != nil {
			return nil
		}
		parsed = append(parsed, path)
	}
	return parsed
}

// cell returns the value at path in the column's type; nil when there is none,
// or one of another type.
func cell(path *jsonpath.JSONPath, columnType string, content map[string]any) any {
	results, err := path.FindResults(content)
	if err != nil || len(results) == 0 || len(results[0]) == 0 || !results[0][0].IsValid() {
		return nil
	}
	switch value := results[0][0].Interface(); columnType {
	case "string":
		var text bytes.Buffer
		if value == nil || path.PrintResults(&text, []reflect.Value{reflect.ValueOf(value)}) != nil {
			return nil
		}
		return text.String()
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if s, ok := value.(string); ok {
			return age(s)
		}
	}
	return nil
}

// age reads a time of a column of type date.
func age(s string) any {
	if s == "" {
		return kinds.Age(time.Time{})
	}
	then, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return "<invalid>"
	}
	return kinds.Age(then)
}
