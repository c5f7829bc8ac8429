package gokind

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/gapless-io/gapless/internal/wire"
)

// maxCompared bounds a strategic merge patch, which the library does not let anybody end. To merge
// a list of the patch into one of the object it compares each item with each, and to put the items
// into order it looks each of them up in a list, about log n times. A unit is a pair of items, and
// takes up to 230 ns, so that the bound is about a second: 1 500 items and their order.
const maxCompared = 5_000_000

// Directives of a strategic merge patch beside the list "x" (apimachinery strategicpatch/patch.go).
const (
	orderOf   = "$setElementOrder/"
	deletedOf = "$deleteFromPrimitiveList/"
)

// merging counts what the library compares for a patch.
type merging struct{ compared int }

// checkMerging refuses a patch that takes the library too long, with 413.
func checkMerging(before, change strategicpatch.JSONMap, dataStruct any) error {
	meta, err := strategicpatch.NewPatchMetaFromStruct(dataStruct)
	if err != nil {
		return wire.Internal(err)
	}
	var m merging
	m.objects(before, []map[string]any{change}, meta)
	if m.compared > maxCompared {
		return wire.TooLarge(
			"a list of the patch, with the object's and with that of its order, has too many items to be merged: " +
				"the limit is about 1500 in a list; replace the object, or send a JSON patch or a merge patch",
		)
	}
	return nil
}

// objects counts for patches of one object, which is nil if there is none: items of a list may
// have the same key, and are merged one after the other.
func (m *merging) objects(before map[string]any, patches []map[string]any, meta strategicpatch.LookupPatchMeta) {
	type member struct {
		values  []any
		ordered int // items of its $setElementOrder
		deleted bool
	}
	members := map[string]*member{}
	of := func(name string) *member {
		if members[name] == nil {
			members[name] = &member{}
		}
		return members[name]
	}
	for _, p := range patches {
		for name, value := range p {
			if list, is := strings.CutPrefix(name, orderOf); is {
				items, _ := value.([]any)
				of(list).ordered += len(items) + 1
			} else if list, is := strings.CutPrefix(name, deletedOf); is {
				of(list).deleted = true // the library merges it also into a list of objects
				of(list).values = append(of(list).values, value)
			} else {
				of(name).values = append(of(name).values, value)
			}
		}
	}
	for name, p := range members {
		was, found := before[name]
		if !found && len(p.values) < 2 && p.ordered == 0 {
			continue // it is taken as it is
		}
		if _, is := was.([]any); is || p.ordered > 0 || slices.ContainsFunc(p.values, isList) {
			m.lists(was, p.values, p.ordered, metaOfList(meta, name, p.deleted))
			continue
		}
		changes := objectsOf(p.values)
		if len(changes) == 0 {
			continue
		}
		if below, _, err := meta.LookupPatchMetadataForStruct(name); err == nil {
			object, _ := was.(map[string]any)
			m.objects(object, changes, below)
		}
	}
}

// listMeta is how a list is merged.
type listMeta struct {
	merges bool
	key    string                         // of its items, which are objects; empty: they are not
	items  strategicpatch.LookupPatchMeta // nil: unknown
}

func metaOfList(of strategicpatch.LookupPatchMeta, name string, deleted bool) listMeta {
	items, meta, err := of.LookupPatchMetadataForSlice(name)
	if err != nil {
		return listMeta{merges: deleted}
	}
	return listMeta{deleted || slices.Contains(meta.GetPatchStrategies(), "merge"), meta.GetPatchMergeKey(), items}
}

// lists counts for lists that are merged into one, with so many items in lists of their order.
func (m *merging) lists(before any, patches []any, ordered int, how listMeta) {
	if !how.merges && ordered == 0 {
		return // the last one replaces it
	}
	was, _ := before.([]any)
	all, times := len(was), 0
	for _, p := range patches {
		items, _ := p.([]any)
		all += len(items)
		times++
	}
	m.compared += max(1, times) * all * (all + ordered)
	if m.compared > maxCompared || how.key == "" || how.items == nil {
		return
	}
	type item struct {
		before  map[string]any
		patches []map[string]any
	}
	found, keys := map[any]*item{}, []any{}
	of := func(object map[string]any) *item {
		key := keyOf(object, how.key)
		if found[key] == nil {
			found[key] = &item{}
			keys = append(keys, key)
		}
		return found[key]
	}
	for _, p := range patches {
		for _, object := range objectsOf(sliceOf(p)) {
			of(object).patches = append(of(object).patches, object)
		}
	}
	for _, object := range objectsOf(was) {
		if i := found[keyOf(object, how.key)]; i != nil && i.before == nil {
			i.before = object
		}
	}
	for _, key := range keys {
		if i := found[key]; i.before != nil || len(i.patches) > 1 {
			m.objects(i.before, i.patches, how.items)
		}
	}
}

// keyOf returns the value of a merge key; nil for an object or a list, which the library refuses.
func keyOf(object map[string]any, name string) any {
	switch key := object[name].(type) {
	case map[string]any, []any:
		return nil
	default:
		return key
	}
}

func isList(v any) bool { _, is := v.([]any); return is }

func sliceOf(v any) []any { list, _ := v.([]any); return list }

// objectsOf returns those of the values that are objects.
func objectsOf(values []any) []map[string]any {
	var out []map[string]any
	for _, v := range values {
		if object, is := v.(map[string]any); is {
			out = append(out, object)
		}
	}
	return out
}
