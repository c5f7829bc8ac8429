package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// What is written to a terminal (ECMA-48, and xterm's private modes): the other screen without a cursor and without
// breaking lines, and back.
const (
	screenOpens  = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	screenCloses = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	home         = "\x1b[H"
	restOfLine   = "\x1b[K"
	restOfScreen = "\x1b[J"
	bold         = "\x1b[1m"
	reverse      = "\x1b[7m"
	normal       = "\x1b[0m"
)

// view is what top shows. Colours are not used, so that NO_COLOR needs no look.
type view struct {
	report        *report
	problem       string // why the last request had no answer
	interval      time.Duration
	width, height int

	at     int             // the table
	orders map[string]sort // by the name of the table
	top    int             // the first row that is shown
	wide   bool
	help   bool
}

// sort is by what a table is sorted.
type sort struct {
	column     string // "": as the server has sent it
	descending bool
}

func newView(r *report, interval time.Duration) *view {
	return &view{report: r, interval: interval, orders: map[string]sort{}}
}

// resize takes the size of the terminal, and reports whether it is another one.
func (v *view) resize(width, height int) bool {
	other := width != v.width || height != v.height
	v.width, v.height = width, height
	return other
}

// take takes an answer. After an error the last state stays.
func (v *view) take(a answer) {
	if a.err != nil {
		v.problem = plain(a.err.Error())
		return
	}
	v.report, v.problem = a.report, ""
	v.at = min(v.at, len(v.report.tables)-1)
}

func (v *view) table() *table { return &v.report.tables[v.at] }

// press does what a key asks for.
func (v *view) press(k key) reaction {
	if v.help && k != "q" && k != control {
		v.help = false
		return goesOn
	}
	switch k {
	case "q", control:
		return ends
	case "?", "h":
		v.help = true
	case tab:
		v.choose((v.at + 1) % len(v.report.tables))
	case "1", "2", "3", "4", "5":
		v.choose(int(k[0] - '1'))
	case left, "<":
		v.order(-1)
	case right, ">":
		v.order(1)
	case "i":
		by := v.orders[v.table().name]
		by.descending = !by.descending
		v.orders[v.table().name] = by
	case up, "k":
		v.top--
	case down, "j":
		v.top++
	case pageUp:
		v.top -= v.rows()
	case pageDown, " ":
		v.top += v.rows()
	case "w":
		v.wide = !v.wide
	}
	return goesOn
}

func (v *view) choose(at int) {
	if at < len(v.report.tables) && at != v.at {
		v.at, v.top = at, 0
	}
}

// order sorts by the next column that is shown, or the one before: numbers from the largest, texts from the first.
func (v *view) order(step int) {
	t := v.table()
	at := slices.IndexFunc(t.columns, func(c column) bool { return c.name == v.orders[t.name].column })
	if at < 0 && step < 0 {
		at = 0
	}
	for range t.columns {
		at = (at + step + len(t.columns)) % len(t.columns)
		if c := t.columns[at]; v.wide || !c.wide {
			v.orders[t.name] = sort{column: c.name, descending: c.number}
			return
		}
	}
}

// sorted sorts the table as was asked for, and says so.
func (v *view) sorted(t *table) string {
	by := v.orders[t.name]
	at := slices.IndexFunc(t.columns, func(c column) bool { return c.name == by.column })
	if at < 0 {
		if by.descending { // the order of the server, the other way round
			slices.Reverse(t.rows)
			return "as sent, reversed"
		}
		return "as sent"
	}
	t.by(at, by.descending)
	if by.descending {
		return "by " + by.column + " ↓"
	}
	return "by " + by.column + " ↑"
}

// rows is how many rows of a table the terminal has room for: at least one.
func (v *view) rows() int {
	const around = 4 // an empty line, the names of the tables, the head of the table, and what follows it
	return max(1, v.height-len(v.head())-around)
}

// head is what is above the tables, of which a small terminal shows some lines only.
func (v *view) head() []string {
	all := v.report.texts()
	for i, l := range v.report.lines {
		if l.bad {
			all[i] = bold + v.cut(all[i]) + normal
		}
	}
	if most := max(1, v.height/3); len(all) > most { //nolint:mnd // the tables have the rest
		all = all[:most]
	}
	if v.problem != "" {
		all = append([]string{bold + v.cut("NO ANSWER: "+v.problem) + normal}, all...)
	}
	return all
}

// draw returns what draws the view over the one before.
func (v *view) draw() string {
	lines := strings.Split(strings.TrimSuffix(keysHelp, "\n"), "\n")
	if !v.help {
		lines = v.body()
	}
	if len(lines) > v.height {
		lines = lines[:v.height]
	}
	var out strings.Builder
	out.WriteString(home)
	for i, l := range lines {
		if i > 0 {
			out.WriteString("\r\n")
		}
		if !strings.Contains(l, "\x1b") {
			l = v.cut(l)
		}
		out.WriteString(l + restOfLine)
	}
	out.WriteString(restOfScreen)
	return out.String()
}

func (v *view) body() []string {
	shown := *v.table()
	shown.rows = slices.Clone(shown.rows)
	order := v.sorted(&shown)
	rows := v.rows()
	v.top = max(0, min(v.top, len(shown.rows)-rows))
	last := min(len(shown.rows), v.top+rows)
	text := shown.text(v.wide)
	lines := append(v.head(), "", v.names(order), reverse+v.padded(text[0])+normal)
	lines = append(lines, text[1+v.top:1+last]...)
	switch {
	case len(shown.rows) == 0:
		lines = append(lines, "none")
	case last < len(shown.rows) || v.top > 0:
		lines = append(lines, fmt.Sprintf("rows %d to %d of %d", v.top+1, last, len(shown.rows)))
	case shown.more != "":
		lines = append(lines, shown.more)
	}
	return lines
}

// names is the line with the names of the tables.
func (v *view) names(order string) string {
	var all []string
	for i, t := range v.report.tables {
		name := fmt.Sprintf("%d %s", i+1, t.name)
		if i == v.at {
			name = "[" + name + "]"
		}
		all = append(all, name)
	}
	return v.cut(fmt.Sprintf("%s   %s   every %v   ? keys   q quit", strings.Join(all, " "), order, v.interval))
}

// cut is what of a text fits into a line.
func (v *view) cut(text string) string {
	if utf8.RuneCountInString(text) <= v.width {
		return text
	}
	return string([]rune(text)[:max(0, v.width)])
}

// padded is as wide as the terminal.
func (v *view) padded(text string) string {
	text = v.cut(text)
	return text + strings.Repeat(" ", max(0, v.width-utf8.RuneCountInString(text)))
}
