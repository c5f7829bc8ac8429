package past

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Step is one step of a [Path]: a member of an object, or an item of an array.
type Step struct {
	// Name is that of a member, or of the key field of an item; an item without a key field has none.
	Name string
	Item bool
	// Value is the value of an item's key field.
	Value string
	// Index is the place of an item that has no key field.
	Index int
}

// Path leads from the root of a tree to one of its values.
type Path []Step

// String is like spec.template.spec.containers[web].image or metadata.labels[example.com/a].
func (p Path) String() string {
	var text strings.Builder
	for i, s := range p {
		switch {
		case s.Item && s.Name == "":
			text.WriteString("[" + strconv.Itoa(s.Index) + "]")
		case s.Item:
			text.WriteString("[" + Printable(s.Value) + "]")
		case strings.ContainsAny(s.Name, ".[]/ ") || s.Name == "":
			text.WriteString("[" + Printable(s.Name) + "]")
		case i == 0:
			text.WriteString(Printable(s.Name))
		default:
			text.WriteString("." + Printable(s.Name))
		}
	}
	return text.String()
}

// OfStatus reports whether it leads to the status, or into it.
func (p Path) OfStatus() bool { return len(p) > 0 && p[0].Name == "status" }

// to returns a copy with one more step.
func (p Path) to(s Step) Path { return append(slices.Clip(p), s) }

// Printable is a text without the characters that would do something to a terminal, or end a line.
func Printable(text string) string {
	clean := func(r rune) bool { return unicode.IsPrint(r) || r == ' ' }
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if clean(r) {
			return r
		}
		return '·'
	}, text)
}

// keyFields returns the members by which items of an array can be distinguished, the best first: the merge keys of
// k8s.io/api/core/v1, and name for all others.
func keyFields(array string) []string {
	switch array {
	case "volumeMounts":
		return []string{"mountPath"}
	case "volumeDevices":
		return []string{"devicePath"}
	case "ports":
		return []string{"name", "containerPort", "port"}
	case "conditions":
		return []string{"type"}
	case "ownerReferences":
		return []string{"uid"}
	case "hostAliases", "podIPs", "hostIPs":
		return []string{"ip"}
	case "topologySpreadConstraints":
		return []string{"topologyKey"}
	}
	return []string{"name"}
}

// keyField returns the member that has another value in each item of an array, in both states of it; "" if there is
// none.
func keyField(array string, before, after []any) string {
	for _, name := range keyFields(array) {
		if _, distinct := places(name, before); !distinct {
			continue
		}
		if _, distinct := places(name, after); distinct {
			return name
		}
	}
	return ""
}

// places says where the item with each value of a key field is, and whether all have one, and another one.
func places(key string, items []any) (at map[string]int, distinct bool) {
	at = make(map[string]int, len(items))
	for i, item := range items {
		value, has := keyOf(key, item)
		if _, twice := at[value]; twice || !has {
			return nil, false
		}
		at[value] = i
	}
	return at, true
}

// keyOf is the value of an item's key field.
func keyOf(key string, item any) (value string, has bool) {
	o, _ := item.(Tree)
	switch v := o[key].(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
