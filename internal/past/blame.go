package past

import (
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gapless-io/gapless/kube"
)

// Version is one version of an object.
type Version struct {
	ResourceVersion kube.ResourceVersion
	Time            time.Time
	By              []Author
}

// Event is a change of an object, as a page of changes has it.
type Event struct {
	Type            string // ADDED, MODIFIED or DELETED
	ResourceVersion kube.ResourceVersion
	Time            time.Time
	Object          Tree
	Previous        Tree // nil: there was none
	// Unseen reports that the server did not see the change: it found it.
	Unseen bool
}

// Blame remembers which version of an object set each of its fields. The zero value knows none.
type Blame struct {
	tree Tree
	root *origin
	// oldest is the first version, with its managed fields, which say who has set what before.
	oldest Tree

	found, exists bool
}

// Take takes the next change of the object.
func (b *Blame) Take(e *Event) {
	v := &Version{ResourceVersion: e.ResourceVersion, Time: e.Time}
	switch {
	case e.Type == "DELETED":
		*b = Blame{found: true}
	case e.Type == "ADDED" && e.Unseen:
		b.Begin(e.Object)
	case e.Type == "ADDED":
		v.By = Authors(nil, e.Object, nil)
		b.Create(e.Object, v)
	default:
		if b.root == nil {
			b.Begin(e.Previous)
		}
		v.By = Authors(e.Previous, e.Object, Compare(Quiet(e.Previous), Quiet(e.Object)))
		b.Change(e.Object, v)
	}
}

// Found reports whether a version was taken, or a deletion.
func (b *Blame) Found() bool { return b.found }

// Exists reports whether the object exists after what was taken.
func (b *Blame) Exists() bool { return b.exists }

// origin is which version set a value: nil, one that is not known. of has what is below: the members of an object by
// their names, the items of an array by their key fields or by their places.
type origin struct {
	version *Version
	of      map[Step]*origin
	key     string // of an array
}

// Begin takes the oldest version that is known of an object: who has set what in it is before the history.
func (b *Blame) Begin(tree Tree) {
	quiet := Quiet(tree)
	*b = Blame{tree: quiet, oldest: tree, root: originOf("", quiet, nil), found: true, exists: true}
}

// Create takes the first version of an object.
func (b *Blame) Create(tree Tree, v *Version) {
	tree = Quiet(tree)
	*b = Blame{tree: tree, root: originOf("", tree, v), found: true, exists: true}
}

// Change takes the next version of the object.
func (b *Blame) Change(tree Tree, v *Version) {
	tree = Quiet(tree)
	b.root = b.root.changed("", b.tree, tree, v)
	b.tree, b.found, b.exists = tree, true, true
}

// originOf is that of a value that a version has set as a whole.
func originOf(name string, value any, v *Version) *origin {
	o := &origin{version: v}
	switch value := value.(type) {
	case Tree:
		o.of = make(map[Step]*origin, len(value))
		for member, below := range value {
			o.of[Step{Name: member}] = originOf(member, below, v)
		}
	case []any:
		o.key = keyField(name, value, nil)
		o.of = make(map[Step]*origin, len(value))
		for i, item := range value {
			o.of[itemStep(o.key, item, i)] = originOf("", item, v)
		}
	}
	return o
}

// itemStep is the step to an item of an array.
func itemStep(key string, item any, i int) Step {
	if key == "" {
		return Step{Item: true, Index: i}
	}
	value, _ := keyOf(key, item)
	return Step{Item: true, Name: key, Value: value}
}

// changed is that of a value after a version has made after of before.
func (o *origin) changed(name string, before, after any, v *Version) *origin {
	switch a := after.(type) {
	case Tree:
		if b, is := before.(Tree); is {
			out := &origin{version: o.version, of: make(map[Step]*origin, len(a))}
			for member, value := range a {
				s := Step{Name: member}
				if was, there := b[member]; there {
					out.of[s] = o.of[s].changed(member, was, value, v)
				} else {
					out.of[s] = originOf(member, value, v)
				}
			}
			return out
		}
	case []any:
		if b, is := before.([]any); is {
			return o.items(name, b, a, v)
		}
	default:
		switch before.(type) {
		case Tree, []any:
		default:
			if before == after {
				return o
			}
		}
	}
	return originOf(name, after, v)
}

func (o *origin) items(name string, before, after []any, v *Version) *origin {
	key := keyField(name, before, after)
	out := &origin{version: o.version, key: key, of: make(map[Step]*origin, len(after))}
	was := make(map[Step]int, len(before))
	for i, item := range before {
		was[itemStep(key, item, i)] = i
	}
	for i, item := range after {
		s := itemStep(key, item, i)
		if at, there := was[s]; there {
			out.of[s] = o.of[itemStep(o.key, before[at], at)].changed("", before[at], item, v)
		} else {
			out.of[s] = originOf("", item, v)
		}
	}
	return out
}

// Line is a line of an object as YAML.
type Line struct {
	Text string
	// Field reports whether a value is in the line. If not, Version and Before are not set: it begins an object.
	Field bool
	// Version is the version that has set the value; nil: it was before the history.
	Version *Version
	// Before is who set what was before the history, as the managed fields say; nil: they do not.
	Before *Author
}

// Lines returns the newest version as YAML. shown makes of it what is shown: the fields must stay.
func (b *Blame) Lines(shown func(Tree) Tree) ([]Line, error) {
	text, err := YAML(shown(b.tree))
	if err != nil || len(text) == 0 {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("read the object as YAML: %w", err)
	}
	var all []Line
	for line := range strings.Lines(string(text)) {
		all = append(all, Line{Text: strings.TrimSuffix(line, "\n")})
	}
	m := marking{lines: all, begins: map[int]bool{}}
	for _, e := range entriesOf(b.oldest) {
		m.before = append(m.before, owners{e.Author, setOf(e.fields)})
	}
	if len(document.Content) == 1 {
		m.mark(document.Content[0], place{b.tree, b.root, nil})
	}
	for i := 1; i < len(all); i++ { // the other lines of a long text
		if !m.begins[i] && all[i-1].Field {
			all[i].Field, all[i].Version, all[i].Before = true, all[i-1].Version, all[i-1].Before
		}
	}
	return all, nil
}

// marking writes the origins of values to the lines in which they begin.
type marking struct {
	lines  []Line
	begins map[int]bool // the lines in which a member or an item begins
	before []owners
}

// owners are the fields that a manager has.
type owners struct {
	by  Author
	set fieldSet
}

// place is a value, who has set it, and where it is.
type place struct {
	value  any
	origin *origin
	path   Path
}

func (m *marking) mark(n *yaml.Node, at place) {
	m.begins[n.Line-1] = true
	if at.origin == nil {
		return // it is in what is shown only
	}
	if len(n.Content) == 0 {
		m.set(n.Line, at)
		return
	}
	switch value := at.value.(type) {
	case Tree:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, below := n.Content[i], n.Content[i+1]
			s := Step{Name: name.Value}
			to := place{value[s.Name], at.origin.of[s], at.path.to(s)}
			m.begins[name.Line-1] = true
			if len(below.Content) == 0 {
				m.set(name.Line, to)
			}
			m.mark(below, to)
		}
	case []any:
		for i, item := range n.Content[:min(len(n.Content), len(value))] {
			s := itemStep(at.origin.key, value[i], i)
			m.mark(item, place{value[i], at.origin.of[s], at.path.to(s)})
		}
	}
}

// set writes an origin to a line, counted from 1.
func (m *marking) set(line int, at place) {
	if at.origin == nil || line < 1 || line > len(m.lines) {
		return
	}
	l := &m.lines[line-1]
	l.Field, l.Version = true, at.origin.version
	if l.Version != nil || l.Before != nil {
		return
	}
	for _, o := range m.before {
		if o.set.has(at.path) && (l.Before == nil || o.by.Time.After(l.Before.Time)) {
			l.Before = &o.by
		}
	}
}
