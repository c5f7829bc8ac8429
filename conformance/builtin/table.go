package builtin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Table has the known findings. A finding that stays has a reason.
type Table struct{ reasons map[Finding]string }

// tableHead begins the file of a table.
const tableHead = `# The known findings: kind | write | class | field | why | reason
# The reason is of those that stay. Written by go test -update, which keeps the reasons.
`

// columns are those of a line; the reason may be missing.
const columns = 6

// ParseTable reads a table.
func ParseTable(text string) (Table, error) {
	t := Table{reasons: map[Finding]string{}}
	for i, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(line, "|", columns)
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) < columns-1 {
			return Table{}, fmt.Errorf("line %d: %d columns, want kind | write | class | field | why | reason", i+1, len(parts))
		}
		f := Finding{Kind: parts[0], Write: Write(parts[1]), Class: Class(parts[2]), Field: parts[3], Why: parts[4]}
		if !slices.Contains(classes(), f.Class) {
			return Table{}, fmt.Errorf("line %d: %q is no class", i+1, f.Class)
		}
		if _, twice := t.reasons[f]; twice {
			return Table{}, fmt.Errorf("line %d: %s is there twice", i+1, f)
		}
		t.reasons[f] = ""
		if len(parts) == columns {
			t.reasons[f] = parts[columns-1]
		}
	}
	return t, nil
}

// With returns the table of these findings, with the reasons of this one. Findings of
// kinds that were not played stay.
func (t Table) With(found map[Finding]bool, played map[string]bool) Table {
	next := Table{reasons: map[Finding]string{}}
	for f, reason := range t.reasons {
		if !played[f.Kind] || found[f] {
			next.reasons[f] = reason
		}
	}
	for f := range found {
		next.reasons[f] = t.reasons[f]
	}
	return next
}

// Missing returns the findings that the table does not have.
func (t Table) Missing(found map[Finding]bool) []Finding {
	return sorted(func(yield func(Finding) bool) {
		for f := range found {
			if _, known := t.reasons[f]; !known && !yield(f) {
				return
			}
		}
	})
}

// Stale returns the findings of the table, of kinds that were played, that are not found.
func (t Table) Stale(found map[Finding]bool, played map[string]bool) []Finding {
	return sorted(func(yield func(Finding) bool) {
		for f := range t.reasons {
			if played[f.Kind] && !found[f] && !yield(f) {
				return
			}
		}
	})
}

// Stays reports whether a finding is known and has a reason.
func (t Table) Stays(f Finding) bool { return t.reasons[f] != "" }

// String is the text that ParseTable reads.
func (t Table) String() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, f := range sorted(maps.Keys(t.reasons)) {
		b.WriteString(f.String())
		if reason := t.reasons[f]; reason != "" {
			b.WriteString(" | " + reason)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// sorted returns findings by kind, write, class, field and reason.
func sorted(all func(func(Finding) bool)) []Finding {
	return slices.SortedFunc(all, func(a, b Finding) int {
		return cmp.Or(
			strings.Compare(a.Kind, b.Kind), strings.Compare(string(a.Write), string(b.Write)),
			cmp.Compare(slices.Index(classes(), a.Class), slices.Index(classes(), b.Class)),
			strings.Compare(a.Field, b.Field), strings.Compare(a.Why, b.Why),
		)
	})
}
