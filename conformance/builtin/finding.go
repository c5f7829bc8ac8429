package builtin

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Class says how the verdicts of the two servers differ.
type Class string

// The classes, by harm. Stricter is a valid object that gapless refuses, Different one
// that both accept in different forms, Warnings one about which both warn differently, Looser
// one that only upstream refuses, Causes one that both refuse for different reasons.
const (
	Stricter  Class = "stricter"
	Different Class = "different"
	Warnings  Class = "warnings"
	Looser    Class = "looser"
	Causes    Class = "causes"
)

// classes are all classes in the order of their harm.
func classes() []Class { return []Class{Stricter, Different, Warnings, Looser, Causes} }

// Write says which write of a kind is compared.
type Write string

// The writes. Decode is no write: what a decoded body and its defaults look like. Kept is an
// update of an object, or of its status, that was stored under older rules.
const (
	Create Write = "create"
	Update Write = "update"
	Kept   Write = "kept"
	Status Write = "status"
	Random Write = "random" // a creation of a random object
	Decode Write = "decode"
)

// Finding is a difference of two verdicts: at a field, with the positions in lists and
// the keys of maps left out, for a reason.
type Finding struct {
	Kind  string
	Write Write
	Class Class
	Field string
	Why   string
}

func (f Finding) String() string {
	return fmt.Sprintf("%s | %s | %s | %s | %s", f.Kind, f.Write, f.Class, f.Field, f.Why)
}

// Compare returns the findings of two verdicts on one body; of has their kind and write.
func Compare(of Finding, upstream, gapless Verdict) []Finding {
	find := func(class Class, causes []cause) []Finding {
		all := make([]Finding, 0, len(causes))
		for _, c := range causes {
			all = append(all, Finding{Kind: of.Kind, Write: of.Write, Class: class, Field: c.field, Why: c.why})
		}
		return all
	}
	warned := find(Warnings, otherWarnings(upstream.Warnings, gapless.Warnings))
	switch {
	case upstream.Status == nil && gapless.Status == nil:
		return append(find(Different, differences("", upstream.Object, gapless.Object)), warned...)
	case upstream.Status == nil:
		return find(Stricter, causesOf(gapless.Status))
	case gapless.Status == nil:
		return find(Looser, causesOf(upstream.Status))
	}
	if of.Write == Random {
		return nil // an object with many errors: which are found is not compared
	}
	ours, theirs := causesOf(gapless.Status), causesOf(upstream.Status)
	found := append(warned, find(Causes, without(theirs, ours, "only upstream: "))...)
	return append(found, find(Causes, without(ours, theirs, "only gapless: "))...)
}

// otherWarnings returns how warnings differ: by their texts, or else by their order.
func otherWarnings(theirs, ours []string) []cause {
	if slices.Equal(theirs, ours) {
		return nil
	}
	causes := func(texts []string) []cause {
		var all []cause
		for _, text := range texts {
			all = append(all, cause{"", position.ReplaceAllString(text, "[*]")})
		}
		return all
	}
	all := append(without(causes(theirs), causes(ours), "only upstream: "),
		without(causes(ours), causes(theirs), "only gapless: ")...)
	if len(all) == 0 {
		return []cause{{"", "another order, or another position"}}
	}
	return all
}

// cause is why an object is refused, or what differs, and where.
type cause struct{ field, why string }

// position matches an index of a list and a key of a map in a field's path.
var position = regexp.MustCompile(`\[[^\]]*\]`)

// causesOf returns the causes of a Status, each once. One without causes is its own.
func causesOf(s *metav1.Status) []cause {
	var all []cause
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			all = append(all, cause{position.ReplaceAllString(c.Field, "[*]"), string(c.Type)})
		}
	}
	if len(all) == 0 {
		all = append(all, cause{"", string(s.Reason)})
	}
	slices.SortFunc(all, func(a, b cause) int {
		return cmp.Or(strings.Compare(a.field, b.field), strings.Compare(a.why, b.why))
	})
	return slices.Compact(all)
}

// without returns those of all that are not in others, marked.
func without(all, others []cause, mark string) []cause {
	var left []cause
	for _, c := range all {
		if !slices.Contains(others, c) {
			left = append(left, cause{c.field, mark + c.why})
		}
	}
	return left
}

// differences returns where two trees differ.
func differences(path string, theirs, ours any) []cause {
	switch theirs := theirs.(type) {
	case map[string]any:
		if ours, is := ours.(map[string]any); is {
			return memberDifferences(path, theirs, ours)
		}
	case []any:
		if ours, is := ours.([]any); is && len(ours) == len(theirs) {
			var all []cause
			for i := range theirs {
				all = append(all, differences(path+"[*]", theirs[i], ours[i])...)
			}
			return all
		}
	}
	if reflect.DeepEqual(theirs, ours) {
		return nil
	}
	return []cause{{path, "another value"}}
}

func memberDifferences(path string, theirs, ours map[string]any) []cause {
	names := slices.Collect(maps.Keys(theirs))
	for name := range ours {
		if _, has := theirs[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []cause
	for _, name := range names {
		a, inTheirs := theirs[name]
		b, inOurs := ours[name]
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case !inOurs:
			all = append(all, cause{at, "only upstream"})
		case !inTheirs:
			all = append(all, cause{at, "only gapless"})
		default:
			all = append(all, differences(at, a, b)...)
		}
	}
	return all
}
