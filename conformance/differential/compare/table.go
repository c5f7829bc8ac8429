package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Class says how a deliberate difference is to be judged.
type Class string

// The classes. There is none for being worse.
const (
	// Better is for what a client gains by.
	Better Class = "better"
	// Other is for what a client does not mind, and why it is so.
	Other Class = "other"
)

// Deliberate is a kind of difference that is meant.
type Deliberate struct {
	ID    string
	Class Class
	// What, Upstream, Gapless and Why are for people.
	What, Upstream, Gapless, Why string
	// Where says which differences these are.
	Where []Where
}

// Where is a pattern of differences: script | case | part | upstream | gapless, with
// * for anything. What is left out at the end matches everything.
type Where struct {
	Text    string
	pattern [5]*regexp.Regexp
}

// Table is all that is meant.
type Table struct{ Entries []Deliberate }

// ParseTable reads the table: entries are parted by empty lines, and each line is a
// word and what it says.
func ParseTable(text string) (Table, error) {
	var t Table
	var entry *Deliberate
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if line == "" {
			entry = nil
			continue
		}
		if entry == nil {
			t.Entries = append(t.Entries, Deliberate{})
			entry = &t.Entries[len(t.Entries)-1]
		}
		if err := entry.set(line); err != nil {
			return Table{}, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	ids := map[string]bool{}
	for _, e := range t.Entries {
		if e.ID == "" || e.What == "" || e.Upstream == "" || e.Gapless == "" || e.Why == "" || len(e.Where) == 0 ||
			e.Class == "" || ids[e.ID] {
			return Table{}, fmt.Errorf("entry %q is not complete, or is there twice", e.ID)
		}
		ids[e.ID] = true
	}
	return t, nil
}

func (e *Deliberate) set(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	text := map[string]*string{"id": &e.ID, "what": &e.What, "upstream": &e.Upstream, "gapless": &e.Gapless, "why": &e.Why}
	switch {
	case rest == "":
		return fmt.Errorf("%s says nothing", word)
	case text[word] != nil && *text[word] == "":
		*text[word] = rest
	case word == "class" && (rest == string(Better) || rest == string(Other)):
		e.Class = Class(rest)
	case word == "where":
		w, err := parseWhere(rest)
		e.Where = append(e.Where, w)
		return err
	default:
		return fmt.Errorf("%q is not for an entry", line)
	}
	return nil
}

func parseWhere(text string) (Where, error) {
	w := Where{Text: text}
	parts := strings.Split(text, "|")
	if len(parts) > len(w.pattern) {
		return w, fmt.Errorf("%q has more than %d parts", text, len(w.pattern))
	}
	for i := range w.pattern {
		glob := "*"
		if i < len(parts) {
			glob = strings.TrimSpace(parts[i])
		}
		w.pattern[i] = regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(glob), `\*`, `.*`) + `$`)
	}
	return w, nil
}

// Matches reports whether a difference is of this kind.
func (w Where) Matches(d Difference) bool {
	for i, value := range []string{d.Script, d.Case, d.Part, d.Upstream, d.Gapless} {
		if !w.pattern[i].MatchString(value) {
			return false
		}
	}
	return true
}

// Find returns the entry that accounts for a difference: the first of the table.
func (t Table) Find(d Difference) (Deliberate, bool) {
	for _, e := range t.Entries {
		if slices.ContainsFunc(e.Where, func(w Where) bool { return w.Matches(d) }) {
			return e, true
		}
	}
	return Deliberate{}, false
}

// General says that an entry is about answers of every kind, so that a case is not
// called different for it.
func (e *Deliberate) General() bool {
	return !slices.ContainsFunc(e.Where, func(w Where) bool { return !strings.HasPrefix(w.Text, "* | * |") })
}

// Stale returns the patterns that account for none of the differences, as "id: pattern".
// Only patterns are looked at that could match one of the scripts that were played.
func (t Table) Stale(all []Difference, played []string) []string {
	accounted := map[string][]Difference{}
	for _, d := range all {
		if e, ok := t.Find(d); ok {
			accounted[e.ID] = append(accounted[e.ID], d)
		}
	}
	var stale []string
	for _, e := range t.Entries {
		for _, w := range e.Where {
			if slices.ContainsFunc(played, w.pattern[0].MatchString) && !slices.ContainsFunc(accounted[e.ID], w.Matches) {
				stale = append(stale, e.ID+": "+w.Text)
			}
		}
	}
	return stale
}

// Markdown is the table for the documentation, the better ones first.
func (t Table) Markdown() string {
	var b strings.Builder
	for _, class := range []Class{Better, Other} {
		fmt.Fprintf(&b, "\n**%s**\n\n", class)
		for _, e := range t.Entries {
			if e.Class == class {
				item(&b, fmt.Sprintf("%s. *Upstream:* %s. *gapless:* %s; %s.", e.What, e.Upstream, e.Gapless, e.Why))
			}
		}
	}
	return b.String()
}

// pageColumns is how long a line of the page may be.
const pageColumns = 120

// item writes an item of a list, in lines. It breaks no code.
func item(b *strings.Builder, text string) {
	line, code := "-", false
	for word := range strings.SplitSeq(text, " ") {
		if n := utf8.RuneCountInString(line); n > 2 && !code && n+1+utf8.RuneCountInString(word) > pageColumns {
			b.WriteString(line + "\n")
			line = " "
		}
		line += " " + word
		code = code != (strings.Count(word, "`")%2 == 1)
	}
	b.WriteString(line + "\n")
}
