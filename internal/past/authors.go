package past

import (
	"strings"
	"time"
)

// Author is who changed an object, as its managed fields say.
type Author struct {
	Manager     string    `json:"manager"`
	Operation   string    `json:"operation,omitempty"` // Apply or Update
	Subresource string    `json:"subresource,omitempty"`
	Time        time.Time `json:"time,omitzero"` // whole seconds, by the clock of the server
}

// String is like "kubectl (Apply)" or "kubelet (Update status)".
func (a Author) String() string {
	how := strings.TrimSpace(a.Operation + " " + a.Subresource)
	if how == "" {
		return Printable(a.Manager)
	}
	return Printable(a.Manager) + " (" + Printable(how) + ")"
}

// Names are authors as a text, "" for none.
func Names(all []Author) string {
	var names []string
	for _, a := range all {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

// Authors returns who made after of before, which is nil if after is new. That are the entries of managedFields that
// are new, or whose time has moved; if there are none, which is so when somebody changes a thing twice in a second,
// those of the fields that differ. It is empty if managed fields do not tell.
func Authors(before, after Tree, found []Difference) []Author {
	entries := entriesOf(after)
	former := map[Author]managed{}
	for _, e := range entriesOf(before) {
		former[e.key()] = e
	}
	var moved []Author
	for _, e := range entries {
		if was, there := former[e.key()]; !there || !was.Time.Equal(e.Time) {
			moved = append(moved, e.Author)
		}
	}
	if len(moved) > 0 || before == nil {
		return moved
	}
	for _, e := range entries {
		if setOf(e.fields).hasOne(found) {
			moved = append(moved, e.Author)
		}
	}
	return moved
}

// managed is an entry of managedFields.
type managed struct {
	Author

	fields Tree
}

// key is what distinguishes an entry.
func (m managed) key() Author {
	a := m.Author
	a.Time = time.Time{}
	return a
}

// entriesOf reads the managed fields of an object.
func entriesOf(tree Tree) []managed {
	meta, _ := tree["metadata"].(Tree)
	entries, _ := meta["managedFields"].([]any)
	var all []managed
	for _, e := range entries {
		entry, is := e.(Tree)
		if !is {
			continue
		}
		m := managed{Author: Author{
			Manager: Text(entry, "manager"), Operation: Text(entry, "operation"), Subresource: Text(entry, "subresource"),
		}}
		m.Time, _ = time.Parse(time.RFC3339, Text(entry, "time")) // zero: it has none
		m.fields, _ = entry["fieldsV1"].(Tree)
		all = append(all, m)
	}
	return all
}

// fieldSet is a set of fields: what it has below each step; a set without steps is a leaf, and has all that is below.
type fieldSet map[Step]fieldSet

// setOf reads fieldsV1, as package fieldpath of structured-merge-diff writes it.
func setOf(fields Tree) fieldSet {
	set := make(fieldSet, len(fields))
	for name, value := range fields {
		below, _ := value.(Tree)
		for _, s := range stepsOf(name) {
			set[s] = setOf(below)
		}
	}
	return set
}

// stepsOf are the steps that a member of fieldsV1 stands for: one for each key field of an item.
func stepsOf(name string) []Step {
	if member, is := strings.CutPrefix(name, "f:"); is {
		return []Step{{Name: member}}
	}
	text, is := strings.CutPrefix(name, "k:")
	if !is {
		return nil
	}
	keys, err := Decode([]byte(text))
	if err != nil {
		return nil
	}
	var all []Step
	for key := range keys {
		if value, has := keyOf(key, keys); has {
			all = append(all, Step{Item: true, Name: key, Value: value})
		}
	}
	return all
}

// has reports whether a field is in the set.
func (f fieldSet) has(p Path) bool {
	for i, s := range p {
		below, there := f[s]
		if !there {
			return i > 0 && len(f) == 0
		}
		f = below
	}
	return len(p) > 0
}

// hasOne reports whether one of the fields that differ is in the set.
func (f fieldSet) hasOne(found []Difference) bool {
	for _, d := range found {
		if f.has(d.Path) {
			return true
		}
	}
	return false
}
