package dashboard

import (
	"bytes"
	"fmt"
	"html/template"
	"maps"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gapless-io/gapless/internal/past"
)

// object is one as JSON has it.
type object = past.Tree

// change is one of an object.
type change struct {
	Type            string
	ResourceVersion string
	Time            time.Time
	Object          object
	Previous        object // nil: there was none

	Of Resource `json:"-"`
}

// RV is the resourceVersion as a number.
func (c *change) RV() uint64 { return number(c.ResourceVersion) }

// Namespace is that of the object.
func (c *change) Namespace() string { return past.Text(c.Object, "metadata", "namespace") }

// Name is that of the object.
func (c *change) Name() string { return past.Text(c.Object, "metadata", "name") }

// states are the object before and after the change; nil: there was none.
func (c *change) states() (before, after object) {
	if c.Type == "DELETED" {
		return c.Object, nil
	}
	return c.Previous, c.Object
}

// What a line says of a change.
const (
	maxPaths = 3   // that are named
	maxSaid  = 500 // bytes
	maxBy    = 200 // bytes
)

// what is what a change was.
type what struct {
	Class string // created, changed, status or deleted
	Short string // the paths that changed, and their values
	By    string // who made it, as far as managed fields tell
}

func whatOf(c *change) what {
	found := past.Compare(past.Quiet(c.Previous), past.Quiet(c.Object))
	by := brief(past.Names(past.Authors(c.Previous, c.Object, found)), maxBy)
	said := brief(past.Summary(found, maxPaths), maxSaid)
	switch {
	case c.Type == "ADDED":
		return what{"created", "", by}
	case c.Type == "DELETED":
		return what{"deleted", "", ""} // nobody is known
	case past.OnlyStatus(found):
		return what{"status", said, by}
	}
	return what{"changed", said, by}
}

// masked hides the data of a Secret. What it returns never has it, whatever members the object lacks.
func masked(with *past.Masker, o object) object {
	if o == nil {
		return nil
	}
	o = maps.Clone(o)
	o["kind"], o["apiVersion"] = "Secret", "v1"
	return with.Mask(o)
}

// asYAML encodes an object without managed fields, which are longer than the rest.
func asYAML(o object) string {
	if meta, is := o["metadata"].(object); is {
		meta, o = maps.Clone(meta), maps.Clone(o)
		delete(meta, "managedFields")
		o["metadata"] = meta
	}
	text, err := past.YAML(o)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Bounds of what a page shows of a difference.
const (
	maxRows = 300   // lines
	maxLine = 300   // characters of one
	gap     = "gap" // the class of a row in the place of lines that are equal
)

// isBegin matches the head of a part that begins with the first line.
var isBegin = regexp.MustCompile(`^@@ -[01][, ]`)

// row is a line of a difference side by side: both sides have one, or only one of them.
type row struct {
	Class    string // same, removed, added, changed or gap
	Old, New string
}

// sideBySide compares two versions of an object, without what changes with every write; nil: there was none. more is
// how many rows are left out: those that do not fit into a budget of bytes of a page, which gets smaller.
func sideBySide(before, after object, budget *int) (rows []row, more int) {
	diff := past.Unified("", "", []byte(asYAML(past.Quiet(before))), []byte(asYAML(past.Quiet(after))))
	var removed, added []string
	flush := func() {
		for i := range max(len(removed), len(added)) {
			switch {
			case i >= len(added):
				rows = append(rows, row{"removed", removed[i], ""})
			case i >= len(removed):
				rows = append(rows, row{"added", "", added[i]})
			default:
				rows = append(rows, row{"changed", removed[i], added[i]})
			}
		}
		removed, added = nil, nil
	}
	head := 2 // lines with the names
	for line := range bytes.Lines(diff) {
		if head > 0 {
			head--
			continue
		}
		text := shorten(strings.TrimSuffix(string(line[1:]), "\n"))
		switch line[0] {
		case '-':
			removed = append(removed, text)
		case '+':
			added = append(added, text)
		case ' ':
			flush()
			rows = append(rows, row{"same", text, text})
		case '@':
			if flush(); !isBegin.Match(line) {
				rows = append(rows, row{gap, "⋯", "⋯"})
			}
		}
	}
	flush()
	for i, r := range rows {
		if *budget -= rowBytes + escaped(r.Old) + escaped(r.New); i == maxRows || *budget < 0 {
			return rows[:i], len(rows) - i
		}
	}
	return rows, 0
}

// rowBytes is what a row has besides its texts, and escaped how many bytes a text has in a page.
const rowBytes = 50

func escaped(text string) int { return len(template.HTMLEscapeString(text)) }

// fit returns the beginning of a text that has at most so many bytes in a page.
func fit(text string, most int) string {
	for at, r := range text {
		if most -= escaped(string(r)); most < 0 {
			return text[:at]
		}
	}
	return text
}

// brief is a text of at most so many bytes in a page.
func brief(text string, most int) string {
	if beginning := fit(text, most); len(beginning) < len(text) {
		return beginning + "…"
	}
	return text
}

// shorten bounds a line.
func shorten(line string) string {
	if n := utf8.RuneCountInString(line); n > maxLine {
		return string([]rune(line)[:maxLine]) + fmt.Sprintf("… (%d characters)", n)
	}
	return line
}
