package fieldmanager

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/gapless-io/gapless/internal/kinds/jsontree"
)

// maxUpdateManagers is how many managers of updates an object has before the library merges
// the oldest (managedfields DefaultMaxUpdateManagers).
const maxUpdateManagers = 10

// updated records in now, which replaces was, what manager has changed. It does what upstream's
// library does (structured-merge-diff Updater.Update) in a tenth of the time, for objects whose
// managers all use the same version. It returns false, with nothing recorded, when the library has
// to do it.
//
// The library also adapts the fields of managers to a schema that has changed since; here that
// waits until the next apply.
func (f *fieldManager) updated(now, was map[string]any, manager string) bool {
	nowMeta, is := now["metadata"].(map[string]any)
	wasMeta, also := was["metadata"].(map[string]any)
	if !is || !also || f.root == nil || now["apiVersion"] != f.version || was["apiVersion"] != f.version {
		return false
	}
	stored, is := wasMeta["managedFields"].([]any)
	if !is || len(stored) == 0 {
		return false
	}
	if sent, has := nowMeta["managedFields"]; has && sent != nil && f.subresource == "" && !jsontree.Equal(sent, stored) {
		return false // the client says who manages what
	}
	mine, ok := f.readable(stored, manager)
	if !ok {
		return false
	}
	d, ok := f.differ(was, now)
	if !ok {
		return false
	}
	entries := f.moved(stored, mine, d)
	if mine < 0 && len(d.set) > 0 {
		entries = append(entries, f.entry(manager, d.set))
	}
	if len(entries) == 0 {
		delete(nowMeta, "managedFields")
		return true
	}
	slices.SortFunc(entries, compareEntries)
	nowMeta["managedFields"] = entries
	return true
}

// readable returns the index of the manager's entry for updates, -1 if there is none. It
// returns false if the entries are not as this package and the library write them, some of them are of
// another version, or the library would merge them.
func (f *fieldManager) readable(stored []any, manager string) (mine int, ok bool) {
	mine, updates := -1, 0
	for i, item := range stored {
		e, is := item.(map[string]any)
		if !is || e["apiVersion"] != f.version || e["fieldsType"] != "FieldsV1" {
			return -1, false
		}
		if _, is := e["fieldsV1"].(map[string]any); !is || !known(e) {
			return -1, false
		}
		if slices.ContainsFunc(stored[:i], func(other any) bool { return sameManager(other, e) }) {
			return -1, false
		}
		switch e["operation"] {
		case string(metav1.ManagedFieldsOperationUpdate):
			updates++
			if subresource, _ := e["subresource"].(string); e["manager"] == manager && subresource == f.subresource {
				mine = i
			}
		case string(metav1.ManagedFieldsOperationApply):
		default:
			return -1, false
		}
	}
	return mine, updates < maxUpdateManagers || updates == maxUpdateManagers && mine >= 0
}

// known reports whether an entry has no other members than the library writes, and a time as
// it writes times.
func known(e map[string]any) bool {
	for name, value := range e {
		switch text, is := value.(string); name {
		case "fieldsV1":
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			if !is || text == "" {
				return false
			}
		case "time":
			t, err := time.Parse(time.RFC3339, text)
			if err != nil || t.UTC().Format(time.RFC3339) != text {
				return false
			}
		default:
			return false
		}
	}
	_, has := e["manager"]
	return has
}

func sameManager(a any, b map[string]any) bool {
	other, is := a.(map[string]any)
	return is && other["manager"] == b["manager"] && other["operation"] == b["operation"] &&
		other["subresource"] == b["subresource"]
}

// entry returns the entry of a manager of updates. fields is used by it.
func (f *fieldManager) entry(manager string, fields fieldSet) map[string]any {
	e := map[string]any{
		"manager": manager, "operation": string(metav1.ManagedFieldsOperationUpdate), "apiVersion": f.version,
		"time": time.Now().UTC().Format(time.RFC3339), "fieldsType": "FieldsV1", "fieldsV1": fields,
	}
	if f.subresource != "" {
		e["subresource"] = f.subresource
	}
	return e
}

// moved returns the entries after a difference: the one with index mine gets what was set, the
// others lose it, and all of them lose what was removed. Those that have nothing left go. The
// entries that change are copies.
func (f *fieldManager) moved(stored []any, mine int, d difference) []any {
	entries := make([]any, 0, len(stored)+1)
	for i, item := range stored {
		e := item.(map[string]any)               //nolint:forcetypeassert // readable has looked
		fields := e["fieldsV1"].(map[string]any) //nolint:forcetypeassert // readable has looked
		left, changed := subtract(fields, d.removed)
		if i == mine && len(d.set) > 0 {
			manager, _ := e["manager"].(string)
			entries = append(entries, f.entry(manager, union(left, d.set)))
			continue
		}
		if i != mine {
			rest, fewer := subtract(left, d.set)
			left, changed = rest, changed || fewer
		}
		switch {
		case !changed:
			entries = append(entries, e)
		case len(left) > 0:
			next := maps.Clone(e)
			next["fieldsV1"] = left
			entries = append(entries, next)
		}
	}
	return entries
}

// compareEntries orders entries as upstream does (managedfields sortEncodedManagedFields).
func compareEntries(a, b any) int {
	p, _ := a.(map[string]any)
	q, _ := b.(map[string]any)
	for _, name := range []string{"operation", "time", "manager", "apiVersion", "subresource"} {
		first, _ := p[name].(string) // times in UTC are ordered as texts
		second, _ := q[name].(string)
		if order := cmp.Compare(first, second); order != 0 {
			return order
		}
	}
	return 0
}

// marked reports whether a field in a set is itself managed, not only fields below it.
func marked(field fieldSet) bool {
	_, is := field["."]
	return is || len(field) == 0
}

// below returns the fields below one, without its own mark. The result is a copy if it has one.
func below(of fieldSet) fieldSet {
	if _, marked := of["."]; !marked {
		return of
	}
	fields := maps.Clone(of)
	delete(fields, ".")
	return fields
}

// subtract returns the fields of set that are not in minus, and whether these are fewer. It
// changes neither, and may return set.
func subtract(set, minus fieldSet) (left fieldSet, fewer bool) {
	left = set
	for name, value := range minus {
		gone, _ := value.(map[string]any)
		had, is := left[name].(map[string]any)
		if !is {
			continue
		}
		rest, changed := subtract(below(had), below(gone))
		if !changed && (!marked(had) || !marked(gone)) {
			continue
		}
		if !fewer {
			left, fewer = maps.Clone(set), true
		}
		delete(left, name)
		put(left, name, maps.Clone(rest), marked(had) && !marked(gone))
	}
	return left, fewer
}

// union returns the fields of both sets. It changes neither; the result has parts of both.
func union(a, b fieldSet) fieldSet {
	all := make(fieldSet, len(a)+len(b))
	maps.Copy(all, a)
	for name, value := range b {
		more, _ := value.(map[string]any)
		if had, is := a[name].(map[string]any); is {
			put(all, name, union(below(had), below(more)), marked(had) || marked(more))
			continue
		}
		all[name] = more
	}
	return all
}

// difference is what an object, or a value in it, has that the one before had not, or not so,
// and what it has not any more. A set that is empty and not nil means the value itself.
type difference struct{ set, removed fieldSet }

// differ compares two versions of an object, without what its manager cannot set and what nobody
// manages.
func (f *fieldManager) differ(was, now map[string]any) (d difference, ok bool) {
	return f.root.differMaps(f.tracked(was), f.tracked(now))
}

// tracked returns the members of an object that can be managed through this target.
func (f *fieldManager) tracked(object map[string]any) map[string]any {
	members := make(map[string]any, len(object))
	for name, member := range object {
		if name != "apiVersion" && name != "kind" && !f.ignored[name] {
			members[name] = member
		}
	}
	if meta, is := members["metadata"].(map[string]any); is {
		kept := make(map[string]any, len(meta))
		for name, member := range meta {
			if !stripped(name) && !f.ignoredMeta[name] {
				kept[name] = member
			}
		}
		members["metadata"] = kept
	}
	return members
}

// put adds a field to what was set, to what was removed, or to both; nil adds nothing.
func (d *difference) put(name string, set, removed fieldSet) {
	if set != nil {
		if d.set == nil {
			d.set = fieldSet{}
		}
		d.set[name] = set
	}
	if removed != nil {
		if d.removed == nil {
			d.removed = fieldSet{}
		}
		d.removed[name] = removed
	}
}

// differMaps compares two maps.
func (s *shape) differMaps(was, now map[string]any) (d difference, ok bool) {
	for name, member := range now {
		in, _ := s.member(name)
		if before, had := was[name]; had {
			of, ok := in.differValues(before, member)
			if !ok {
				return d, false
			}
			d.put("f:"+name, of.set, of.removed)
			continue
		}
		all, ok := in.whole(member)
		if !ok {
			return d, false
		}
		d.put("f:"+name, all, nil)
	}
	for name, member := range was {
		if _, has := now[name]; has {
			continue
		}
		in, _ := s.member(name)
		all, ok := in.whole(member)
		if !ok {
			return d, false
		}
		d.put("f:"+name, nil, all)
	}
	return d, true
}

// whole returns the field of a value that only one version has, with those below it.
func (s *shape) whole(v any) (of fieldSet, ok bool) {
	switch v := v.(type) {
	case map[string]any:
		if s.Map == nil {
			return nil, false
		}
		if s.Map.ElementRelationship == smdschema.Atomic || len(v) == 0 {
			return fieldSet{}, true
		}
		of = fieldSet{".": fieldSet{}}
		for name, member := range v {
			in, _ := s.member(name)
			below, ok := in.whole(member)
			if !ok {
				return nil, false
			}
			of["f:"+name] = below
		}
		return of, true
	case []any:
		if s.List == nil {
			return nil, false
		}
		if s.List.ElementRelationship == smdschema.Atomic || len(v) == 0 {
			return fieldSet{}, true
		}
		return s.wholeItems(v)
	case nil:
		return fieldSet{}, s.known()
	}
	return fieldSet{}, s.Scalar != nil && fits(*s.Scalar, v)
}

// wholeItems is whole for a list whose items have keys, or are themselves keys.
func (s *shape) wholeItems(items []any) (of fieldSet, ok bool) {
	named, ok := s.byName(items)
	if !ok {
		return nil, false
	}
	of = fieldSet{".": fieldSet{}}
	for name, item := range named {
		if of[name], ok = s.item().whole(item); !ok {
			return nil, false
		}
	}
	return of, true
}

// differValues compares two values of a type.
func (s *shape) differValues(was, now any) (d difference, ok bool) {
	if !s.known() || reflect.TypeOf(was) != reflect.TypeOf(now) { // 1 and 1.0 are equal in the library
		return d, false
	}
	switch now := now.(type) {
	case map[string]any:
		before := was.(map[string]any) //nolint:forcetypeassert // it has the same type
		switch {
		case s.Map == nil:
			return d, false
		case s.Map.ElementRelationship != smdschema.Atomic && len(now)+len(before) > 0:
			return s.differMaps(before, now)
		}
	case []any:
		before := was.([]any) //nolint:forcetypeassert // it has the same type
		switch {
		case s.List == nil:
			return d, false
		case s.List.ElementRelationship != smdschema.Atomic && len(now)+len(before) > 0:
			return s.differLists(before, now)
		}
	case nil:
		return d, true
	default:
		if s.Scalar == nil || !fits(*s.Scalar, now) {
			return d, false
		}
	}
	if !jsontree.Equal(was, now) {
		d.set = fieldSet{}
	}
	return d, true
}

// differLists compares two lists whose items have keys, or are themselves keys.
func (s *shape) differLists(was, now []any) (d difference, ok bool) {
	if jsontree.Equal(was, now) {
		return d, s.identifiable(now)
	}
	before, ok := s.byName(was)
	if !ok {
		return d, false
	}
	after, ok := s.byName(now)
	if !ok {
		return d, false
	}
	for name, item := range after {
		if old, had := before[name]; had {
			of, ok := s.item().differValues(old, item)
			if !ok {
				return d, false
			}
			d.put(name, of.set, of.removed)
			continue
		}
		all, ok := s.item().whole(item)
		if !ok {
			return d, false
		}
		d.put(name, all, nil)
	}
	for name, item := range before {
		if _, has := after[name]; has {
			continue
		}
		all, ok := s.item().whole(item)
		if !ok {
			return d, false
		}
		d.put(name, nil, all)
	}
	return d, true
}

// identifiable reports whether each item of a list certainly has a name in sets.
func (s *shape) identifiable(items []any) bool {
	for _, item := range items {
		switch item := item.(type) {
		case map[string]any:
			if !slices.ContainsFunc(s.Keys, func(key string) bool { _, has := item[key]; return has }) {
				return false
			}
		case []any, nil:
			return false
		default:
			if len(s.Keys) > 0 {
				return false
			}
		}
	}
	return true
}

// byName returns the items of a list by the names that they have in sets; false if one has none,
// or two have the same.
func (s *shape) byName(items []any) (named map[string]any, ok bool) {
	named = make(map[string]any, len(items))
	for _, item := range items {
		name, ok := s.element(item)
		if _, twice := named[name]; !ok || twice {
			return nil, false
		}
		named[name] = item
	}
	return named, true
}
