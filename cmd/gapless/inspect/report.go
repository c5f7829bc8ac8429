package inspect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
)

// report is what a status shows.
type report struct {
	lines  []line
	tables []table
}

// line is one fact.
type line struct {
	name, text string
	bad        bool // it is a problem
}

// table is one of a report.
type table struct {
	name    string // "resources"
	columns []column
	rows    [][]cell
	more    string // what follows the rows; "": nothing
}

// column is one of a table. Those that are wide are shown where there is room; numbers are to the right.
type column struct {
	name         string
	wide, number bool
}

// cell is shown as text, and ordered by a number where its column has numbers.
type cell struct {
	text string
	by   float64
}

func (r *report) add(name, format string, args ...any) {
	r.lines = append(r.lines, line{name: name, text: plain(fmt.Sprintf(format, args...))})
}

func (r *report) addProblem(name, format string, args ...any) {
	r.add(name, format, args...)
	r.lines[len(r.lines)-1].bad = true
}

// named makes columns: those whose names begin with "+" are wide, with "#" numbers.
func named(names ...string) []column {
	all := make([]column, len(names))
	for i, name := range names {
		name, all[i].wide = strings.CutPrefix(name, "+")
		all[i].name, all[i].number = strings.CutPrefix(name, "#")
	}
	return all
}

// Cells.
func text(s string) cell { return cell{text: plain(s)} }

func number[T ~int | ~int64 | ~uint64](n T) cell { return cell{text: fmt.Sprint(n), by: float64(n)} }

func size(n int64) cell { return cell{text: bytes(n), by: float64(n)} }

// since is how long ago something was; the longest ago is the largest, and what never was the smallest.
func since(t time.Time) cell {
	if t.IsZero() {
		return cell{text: "-", by: math.Inf(-1)}
	}
	return cell{text: ago(t), by: -float64(t.UnixMilli())}
}

// plain is a text without what would change a terminal: clients choose their names, and selectors.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, s)
}

// by orders the rows by a column: numbers by their size, the rest by their text.
func (t *table) by(at int, descending bool) {
	slices.SortStableFunc(t.rows, func(a, b []cell) int {
		order := cmp.Compare(a[at].text, b[at].text)
		if t.columns[at].number {
			order = cmp.Compare(a[at].by, b[at].by)
		}
		if descending {
			return -order
		}
		return order
	})
}

// text returns the head and the rows in columns. The columns that are wide are left out unless they are asked for.
func (t *table) text(wide bool) []string {
	shown := make([]int, 0, len(t.columns))
	lines := [][]string{{}}
	for i, c := range t.columns {
		if wide || !c.wide {
			shown = append(shown, i)
			lines[0] = append(lines[0], c.name)
		}
	}
	for _, row := range t.rows {
		words := make([]string, len(shown))
		for at, i := range shown {
			words[at] = row[i].text
		}
		lines = append(lines, words)
	}
	widths := make([]int, len(shown))
	for _, words := range lines {
		for i, word := range words {
			widths[i] = max(widths[i], utf8.RuneCountInString(word))
		}
	}
	all := make([]string, len(lines))
	for at, words := range lines {
		var out strings.Builder
		for i, word := range words {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(word))
			if t.columns[shown[i]].number {
				word = space + word
			} else {
				word += space
			}
			out.WriteString(word + "  ")
		}
		all[at] = strings.TrimRight(out.String(), " ")
	}
	return all
}

func (t *table) write(out *strings.Builder, wide bool) {
	for _, text := range t.text(wide) {
		out.WriteString(text + "\n")
	}
	if t.more != "" {
		out.WriteString(t.more + "\n")
	}
}

// texts are the lines, with their texts below each other.
func (r *report) texts() []string {
	width := 0
	for _, l := range r.lines {
		width = max(width, len(l.name))
	}
	all := make([]string, len(r.lines))
	for i, l := range r.lines {
		all[i] = fmt.Sprintf("%-*s  %s", width, l.name, l.text)
	}
	return all
}

func (r *report) writeLines(out *strings.Builder) {
	for _, text := range r.texts() {
		out.WriteString(text + "\n")
	}
}

// bytes is a number of bytes as people read it.
func bytes(n int64) string {
	const step = 1000
	if n < step {
		return fmt.Sprint(n, "B")
	}
	of, unit := float64(n)/step, 0
	for ; of >= step && unit < len("kMGT")-1; unit++ {
		of /= step
	}
	return fmt.Sprintf("%.1f%cB", of, "kMGT"[unit])
}

// ago is how long ago something was, as kubectl shows it; "never" for the zero time.
func ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return duration.HumanDuration(time.Since(t))
}
