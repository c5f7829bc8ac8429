package revlog

import (
	"cmp"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// version is one version of a key and where its record lies. It holds no
// pointer, so that a million of them cost the garbage collector nothing.
type version struct {
	revision int64
	create   int64 // 0 for a deletion
	millis   int64
	segment  uint32
	offset   uint32
	size     uint32
	deleted  bool
}

func (v version) stamp(previous int64) format.Stamp {
	return format.Stamp{Revision: v.revision, Create: v.create, Previous: previous, Millis: v.millis}
}

// history is the retained versions of one key, oldest first. versions is only
// appended to or replaced: whoever holds an older history may go on reading it.
type history struct {
	key      string
	versions []version
}

// at returns the position of the last version at or below revision, or -1.
func (h history) at(revision int64) int {
	i, found := slices.BinarySearchFunc(h.versions, revision, func(v version, revision int64) int {
		return cmp.Compare(v.revision, revision)
	})
	if found {
		return i
	}
	return i - 1
}

// change is one retained write in the order of revisions.
type change struct {
	revision   int64
	key        string
	supersedes bool // it replaced or deleted a version
}

// resource is the writes to one resource.
type resource struct {
	changes []change // by revision; like history.versions only appended to or replaced
	live    int64    // keys that exist now
	floor   format.Mark
}

// after returns the changes with a revision larger than revision.
func (r *resource) after(revision int64) []change { return changesAfter(r.changes, revision) }

func changesAfter(changes []change, revision int64) []change {
	i, found := slices.BinarySearchFunc(changes, revision, func(c change, revision int64) int {
		return cmp.Compare(c.revision, revision)
	})
	if found {
		i++
	}
	return changes[i:]
}

type keyMap = btree.Map[string, history]

// index says where every retained version lies.
type index struct {
	keys      *keyMap
	resources map[string]*resource
}

func newIndex() index {
	return index{keys: btree.NewMap[string, history](0), resources: map[string]*resource{}}
}

func (x index) resource(name string) *resource {
	r := x.resources[name]
	if r == nil {
		r = &resource{}
		x.resources[name] = r
	}
	return r
}

// latest returns the key's newest version, if the key exists.
func (x index) latest(key string) (version, bool) {
	h, ok := x.keys.Get(key)
	if !ok {
		return version{}, false
	}
	v := h.versions[len(h.versions)-1]
	return v, !v.deleted
}

// version returns what change c wrote.
func (x index) version(c change) (version, bool) {
	h, ok := x.keys.Get(c.key)
	if !ok {
		return version{}, false
	}
	i := h.at(c.revision)
	if i < 0 || h.versions[i].revision != c.revision {
		return version{}, false
	}
	return h.versions[i], true
}

// add appends a version that is newer than every other.
func (x index) add(key string, v version, supersedes bool) {
	h, ok := x.keys.Get(key)
	if !ok {
		h.key = key
	}
	h.versions = append(h.versions, v)
	x.keys.Set(h.key, h)
	r := x.resource(store.ResourceOf(h.key))
	r.changes = append(r.changes, change{revision: v.revision, key: h.key, supersedes: supersedes})
	switch {
	case v.deleted:
		r.live--
	case !supersedes:
		r.live++
	}
}

// span is a range of keys: start <= key < end.
type span struct{ start, end string }

// single returns the one resource the range lies in; it returns "" for a range
// that may hold keys of several.
func (s span) single() string {
	name := store.ResourceOf(s.start)
	if s.end == "" || s.end <= name+"0" && s.start >= name+"/" { // '0' follows '/'
		return name
	}
	return ""
}

func (s span) overlaps(name string) bool {
	return s.start < name+"0" && name+"/" < s.end
}

// floor returns the highest floor of the range and the resource it belongs to.
func (x index) floor(s span) (format.Mark, string) {
	if name := s.single(); name != "" {
		if r := x.resources[name]; r != nil {
			return r.floor, name
		}
		return format.Mark{}, name
	}
	var highest format.Mark
	for name, r := range x.resources {
		if s.overlaps(name) && r.floor.Revision > highest.Revision {
			highest = r.floor
		}
	}
	return highest, ""
}

// check refuses a revision below the floor of the range.
func (x index) check(s span, revision int64) error {
	floor, name := x.floor(s)
	if revision >= floor.Revision {
		return nil
	}
	return &store.CompactedError{
		Resource: name, Requested: revision, Floor: floor.Revision,
		FloorTime: moment(floor.Millis), Reason: floor.Reason, RemovedAt: moment(floor.Removed),
	}
}

// moment is a time in ms of the wall clock; 0 is unknown.
func moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// revisionAt returns the latest retained revision committed at or before millis.
func (x index) revisionAt(millis int64) int64 {
	var latest int64
	for _, r := range x.resources {
		i, _ := slices.BinarySearchFunc(r.changes, millis, func(c change, millis int64) int {
			if v, ok := x.version(c); ok && v.millis > millis {
				return 1
			}
			return -1
		})
		if i > 0 {
			latest = max(latest, r.changes[i-1].revision)
		}
	}
	return latest
}

// load adds a version in any order; finish must follow the last.
func (x index) load(r format.Placed, segment uint32) {
	h, ok := x.keys.Get(r.Key)
	if !ok {
		h.key = r.Key
	}
	h.versions = append(h.versions, version{
		revision: r.Revision, create: r.Create, millis: r.Millis,
		segment: segment, offset: uint32(r.Offset), size: uint32(r.Size), deleted: r.Kind == format.KindDelete,
	})
	x.keys.Set(h.key, h)
	res := x.resource(store.ResourceOf(h.key))
	res.changes = append(res.changes, change{revision: r.Revision, key: h.key, supersedes: r.Previous != 0})
}

// finish puts what load added in order, drops what was forgotten at or below
// compacted, and counts the live keys. It returns what it dropped.
func (x index) finish(compacted int64) []version {
	for _, r := range x.resources {
		if !slices.IsSortedFunc(r.changes, byRevision) {
			slices.SortFunc(r.changes, byRevision)
		}
	}
	var cut []history
	x.keys.Scan(func(_ string, h history) bool {
		if !slices.IsSortedFunc(h.versions, olderVersion) {
			slices.SortFunc(h.versions, olderVersion) // nobody reads it yet
		}
		if h.keep(compacted) > 0 {
			cut = append(cut, h)
		}
		return true
	})
	var dropped []version
	gone := map[int64]bool{}
	for _, h := range cut {
		for _, v := range x.cut(h, compacted) {
			dropped = append(dropped, v)
			gone[v.revision] = true
		}
	}
	for _, r := range x.resources {
		r.changes = slices.DeleteFunc(r.changes, func(c change) bool { return gone[c.revision] })
	}
	x.keys.Scan(func(key string, h history) bool {
		if !h.versions[len(h.versions)-1].deleted {
			x.resource(store.ResourceOf(key)).live++
		}
		return true
	})
	return dropped
}

func byRevision(a, b change) int { return cmp.Compare(a.revision, b.revision) }

func olderVersion(a, b version) int { return cmp.Compare(a.revision, b.revision) }

// keep returns the position of the first version that is still needed once
// history at or below compacted is forgotten.
func (h history) keep(compacted int64) int {
	i := h.at(compacted)
	switch {
	case i < 0:
		return 0
	case h.versions[i].deleted:
		return i + 1
	default:
		return i
	}
}

// cut drops from the key what is forgotten at or below compacted, and returns it.
func (x index) cut(h history, compacted int64) []version {
	i := h.keep(compacted)
	if i == 0 {
		return nil
	}
	dropped := h.versions[:i:i]
	if i == len(h.versions) {
		x.keys.Delete(h.key)
	} else {
		x.keys.Set(h.key, history{key: h.key, versions: slices.Clone(h.versions[i:])})
	}
	return dropped
}

// lastSuperseding returns the newest change of r at or below revision that
// removed a version, which is the floor once history up to there is forgotten.
func (r *resource) lastSuperseding(revision int64) (change, bool) {
	older := len(r.changes) - len(r.after(revision))
	for i := older - 1; i >= 0; i-- {
		if r.changes[i].supersedes {
			return r.changes[i], true
		}
	}
	return change{}, false
}
