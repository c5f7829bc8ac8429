package past

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Kind says how a value differs.
type Kind string

// The kinds of differences.
const (
	Added     Kind = "added"
	Removed   Kind = "removed"
	Changed   Kind = "changed"
	Reordered Kind = "reordered" // an array whose items have key fields, and stand in another order
)

// Difference is a place in which two trees differ. What is only in one of them is one difference, however much is
// below it.
type Difference struct {
	Path          Path
	Kind          Kind
	Before, After any
}

// Compare returns the differences of two trees, in the order of their paths; the status comes last. [Quiet] removes
// what always differs.
func Compare(before, after Tree) []Difference {
	var d differ
	d.objects(nil, before, after)
	return d.found
}

// OnlyStatus reports whether there are differences, and all are in the status.
func OnlyStatus(found []Difference) bool {
	return len(found) > 0 && !slices.ContainsFunc(found, func(d Difference) bool { return !d.Path.OfStatus() })
}

type differ struct{ found []Difference }

func (d *differ) add(p Path, kind Kind, before, after any) {
	d.found = append(d.found, Difference{Path: p, Kind: kind, Before: before, After: after})
}

func (d *differ) values(p Path, before, after any) {
	switch b := before.(type) {
	case Tree:
		if a, is := after.(Tree); is {
			d.objects(p, b, a)
			return
		}
	case []any:
		if a, is := after.([]any); is {
			d.arrays(p, b, a)
			return
		}
	default:
		switch after.(type) {
		case Tree, []any:
		default:
			if before == after {
				return
			}
		}
	}
	d.add(p, Changed, before, after)
}

func (d *differ) objects(p Path, before, after Tree) {
	for _, name := range names(before, after, len(p) == 0) {
		b, was := before[name]
		a, is := after[name]
		to := p.to(Step{Name: name})
		switch {
		case !was:
			d.add(to, Added, nil, a)
		case !is:
			d.add(to, Removed, b, nil)
		default:
			d.values(to, b, a)
		}
	}
}

// names returns the members of two objects, sorted; those of a root with the status behind the others.
func names(a, b Tree, root bool) []string {
	all := make([]string, 0, len(a)+len(b))
	for name := range a {
		all = append(all, name)
	}
	for name := range b {
		if _, twice := a[name]; !twice {
			all = append(all, name)
		}
	}
	slices.SortFunc(all, func(x, y string) int {
		if root && x != y && (x == "status" || y == "status") {
			if x == "status" {
				return 1
			}
			return -1
		}
		return strings.Compare(x, y)
	})
	return all
}

func (d *differ) arrays(p Path, before, after []any) {
	if key := keyField(p.last(), before, after); key != "" {
		d.keyed(p, key, before, after)
		return
	}
	for i := range max(len(before), len(after)) {
		to := p.to(Step{Item: true, Index: i})
		switch {
		case i >= len(before):
			d.add(to, Added, nil, after[i])
		case i >= len(after):
			d.add(to, Removed, before[i], nil)
		default:
			d.values(to, before[i], after[i])
		}
	}
}

// last is the name of the last member on a path.
func (p Path) last() string {
	if len(p) == 0 || p[len(p)-1].Item {
		return ""
	}
	return p[len(p)-1].Name
}

// keyed compares arrays whose items have a key field.
func (d *differ) keyed(p Path, key string, before, after []any) {
	was, _ := places(key, before)
	is, _ := places(key, after)
	for _, item := range before {
		value, _ := keyOf(key, item)
		if _, still := is[value]; !still {
			d.add(p.to(Step{Item: true, Name: key, Value: value}), Removed, item, nil)
		}
	}
	last, ordered := -1, true
	for _, item := range after {
		value, _ := keyOf(key, item)
		to := p.to(Step{Item: true, Name: key, Value: value})
		at, there := was[value]
		if !there {
			d.add(to, Added, nil, item)
			continue
		}
		ordered, last = ordered && at > last, at
		d.values(to, before[at], item)
	}
	if !ordered {
		d.add(p, Reordered, before, after)
	}
}

// longestValue is how many characters of a value a summary shows.
const longestValue = 32

// Summary is what changed, in one line: at most so many places, and how many there are more. 0: all.
func Summary(found []Difference, most int) string {
	var words []string
	for i, d := range found {
		if most > 0 && i == most && len(found) > most {
			words = append(words, fmt.Sprintf("%d more", len(found)-most))
			break
		}
		words = append(words, d.String())
	}
	return strings.Join(words, ", ")
}

// String is like "spec.replicas 3→5", "+spec.paused true" or "-metadata.labels[app] web".
func (d Difference) String() string {
	path := d.Path.String()
	switch d.Kind {
	case Added:
		return "+" + joined(path, short(d.After))
	case Removed:
		return "-" + joined(path, short(d.Before))
	case Reordered:
		return path + " reordered"
	case Changed:
	}
	before, after := short(d.Before), short(d.After)
	if before == "" || after == "" || before == after { // too long, or what differs is behind the end
		return path
	}
	return path + " " + before + "→" + after
}

func joined(path, value string) string {
	if value == "" {
		return path
	}
	return path + " " + value
}

// short is a value in a few characters; "" if it is an object or an array.
func short(value any) string {
	var text string
	switch v := value.(type) {
	case Tree, []any:
		return ""
	case string:
		if text = v; v == "" {
			return `""`
		}
	case json.Number:
		text = v.String()
	default:
		text = fmt.Sprint(v)
		if v == nil {
			text = "null"
		}
	}
	if len(text) > 4*longestValue { // bytes: what follows is not needed
		text = text[:4*longestValue]
	}
	text = Printable(strings.ToValidUTF8(text, "·"))
	if utf8.RuneCountInString(text) > longestValue {
		text = string([]rune(text)[:longestValue-1]) + "…"
	}
	return text
}
