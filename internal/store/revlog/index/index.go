// Package index records in memory the location of each retained version of a log.
//
// A [Version] is one version of a key, and where its record lies. A [History] is the versions
// of one key. A [Change] is one write in the order of revisions, a [Resource] all of one
// resource. An [Index] is all of these. [Ring] holds the values of the latest revisions.
//
// Nothing here locks: the log guards its index, and hands copies of the map of keys,
// which share what has not changed, to its readers.
package index

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/store/revlog/format"
)

// Version is one version of a key and where its record lies. It holds no
// pointer, so that a million of them cost the garbage collector nothing.
type Version struct {
	Revision int64
	Create   int64 // 0 for a deletion
	Millis   int64
	Segment  uint32
	Offset   uint32
	Size     uint32
	Deleted  bool
}

// Stamp is what the record of the version says beside its key and value.
func (v Version) Stamp(previous int64) format.Stamp {
	return format.Stamp{Revision: v.Revision, Create: v.Create, Previous: previous, Millis: v.Millis}
}

// Record is the version as a record of the store.
func (v Version) Record(key string, value []byte) store.Record {
	return store.Record{Key: key, Value: value, ModRevision: v.Revision, CreateRevision: v.Create, Time: time.UnixMilli(v.Millis)}
}

// History is the retained versions of one key, oldest first. versions is only
// appended to or replaced: a reader may continue to read an older history.
type History struct {
	Key      string
	Versions []Version
}

// At returns the position of the last version at or below revision, or -1.
func (h History) At(revision int64) int {
	i, found := slices.BinarySearchFunc(h.Versions, revision, func(v Version, revision int64) int {
		return cmp.Compare(v.Revision, revision)
	})
	if found {
		return i
	}
	return i - 1
}

// Changes returns what was written after a revision, at most most changes.
func (h History) Changes(after int64, most int) []Change {
	versions := h.Versions[h.At(after)+1:]
	changes := make([]Change, min(len(versions), most))
	for i := range changes {
		v := versions[i]
		changes[i] = Change{Revision: v.Revision, Key: h.Key, Supersedes: v.Deleted || v.Create != v.Revision}
	}
	return changes
}

// Change is one retained write in the order of revisions.
type Change struct {
	Revision   int64
	Key        string
	Supersedes bool // it replaced or deleted a version
}

// Resource is the writes to one resource.
type Resource struct {
	Changes   []Change // by revision; like history.versions only appended to or replaced
	Live      int64    // keys that exist now
	LiveBytes int64    // of their newest versions
	Retained  int64    // bytes of all versions
	Floor     format.Mark
}

// After returns the changes with a revision larger than revision.
func (r *Resource) After(revision int64) []Change { return ChangesAfter(r.Changes, revision) }

// ChangesAfter returns those of some changes in order that have a revision larger
// than revision.
func ChangesAfter(changes []Change, revision int64) []Change {
	i, found := slices.BinarySearchFunc(changes, revision, func(c Change, revision int64) int {
		return cmp.Compare(c.Revision, revision)
	})
	if found {
		i++
	}
	return changes[i:]
}

// KeyMap holds the histories of the keys, in the order of the keys.
type KeyMap = btree.Map[string, History]

// Index says where every retained version lies.
type Index struct {
	Keys      *KeyMap
	Resources map[string]*Resource
	Rest      format.Mark // floor of the resources that are not there
	Apart     string      // the resource that ranges over all resources leave out; "": none
	LiveBytes int64       // of the newest versions of the keys that exist
}

// New returns an empty index.
func New() Index {
	return Index{Keys: btree.NewMap[string, History](0), Resources: map[string]*Resource{}}
}

// Resource returns the writes to a resource, of which there may be none.
func (x *Index) Resource(name string) *Resource {
	r := x.Resources[name]
	if r == nil {
		r = &Resource{Floor: x.Rest}
		x.Resources[name] = r
	}
	return r
}

// Latest returns the key's newest version, if the key exists.
func (x *Index) Latest(key string) (Version, bool) {
	h, ok := x.Keys.Get(key)
	if !ok {
		return Version{}, false
	}
	v := h.Versions[len(h.Versions)-1]
	return v, !v.Deleted
}

// Version returns what change c wrote.
func (x *Index) Version(c Change) (Version, bool) {
	h, ok := x.Keys.Get(c.Key)
	if !ok {
		return Version{}, false
	}
	i := h.At(c.Revision)
	if i < 0 || h.Versions[i].Revision != c.Revision {
		return Version{}, false
	}
	return h.Versions[i], true
}

// Frees returns how many bytes are history because v superseded previous: that
// one's, and its own if it is a deletion.
func (v Version) Frees(previous Version) int64 {
	freed := int64(previous.Size)
	if v.Deleted {
		freed += int64(v.Size)
	}
	return freed
}

// Add appends a version that is newer than every other. previous is what it
// supersedes, zero if nothing.
func (x *Index) Add(key string, v, previous Version) {
	supersedes := previous.Revision != 0
	key = x.put(key, v, supersedes)
	r := x.Resource(store.ResourceOf(key))
	r.Changes = append(r.Changes, Change{Revision: v.Revision, Key: key, Supersedes: supersedes})
	switch {
	case v.Deleted:
		r.Live--
	case !supersedes:
		r.Live++
	}
	live := int64(v.Size) - v.Frees(previous)
	x.LiveBytes, r.LiveBytes, r.Retained = x.LiveBytes+live, r.LiveBytes+live, r.Retained+int64(v.Size)
}

// put appends a version to those of a key, and returns the key as they have it. Most versions that supersede nothing are
// the first of their key: then it walks down the tree once instead of twice.
func (x *Index) put(key string, v Version, supersedes bool) string {
	var h History
	var known bool
	if supersedes {
		h, known = x.Keys.Get(key)
	}
	if !known {
		if h, known = x.Keys.Set(key, History{Key: key, Versions: []Version{v}}); !known {
			return key
		}
	}
	h.Versions = append(h.Versions, v)
	x.Keys.Set(h.Key, h)
	return h.Key
}

// Span is a range of keys: start <= key < end.
type Span struct{ Start, End string }

// Single returns the one resource the range lies in; it returns "" for a range
// that may hold keys of several.
func (s Span) Single() string {
	name := store.ResourceOf(s.Start)
	if s.End == "" || s.End <= name+"0" && s.Start >= name+"/" { // '0' follows '/'
		return name
	}
	return ""
}

// overlaps reports whether keys of a resource may be in the range: those from name+"/" on, before name+"0", which are not
// put together here, because it is asked about each resource at each write.
func (s Span) overlaps(name string) bool {
	begins, ends := s.Start < name, name < s.End
	if rest, is := strings.CutPrefix(s.Start, name); is {
		begins = rest < "0"
	}
	if rest, is := strings.CutPrefix(s.End, name); is {
		ends = "/" < rest
	}
	return begins && ends
}

// Floor returns the highest floor of the range and the resource it belongs to.
func (x *Index) Floor(s Span) (format.Mark, string) {
	if name := s.Single(); name != "" {
		if r := x.Resources[name]; r != nil {
			return r.Floor, name
		}
		return x.Rest, name
	}
	highest := x.Rest
	for name, r := range x.Resources {
		if r.Floor.Revision > highest.Revision && name != x.Apart && s.overlaps(name) { // the cheapest first
			highest = r.Floor
		}
	}
	return highest, ""
}

// Check refuses a revision below the floor of the range.
func (x *Index) Check(s Span, revision int64) error {
	floor, name := x.Floor(s)
	if revision >= floor.Revision {
		return nil
	}
	return &store.CompactedError{
		Resource: name, Requested: revision, Floor: floor.Revision,
		FloorTime: Moment(floor.Millis), Reason: floor.Reason, RemovedAt: Moment(floor.Removed),
	}
}

// Moment is a time in ms of the wall clock; 0 is unknown.
func Moment(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis)
}

// maxSpareFloors bounds the floors that are kept, in memory and in the manifest,
// for resources of which no record is left (142 bytes each there). Floors beyond
// it become one, the lowest first.
const maxSpareFloors = 4096

// SpareFloors returns the resources whose floors are to be given up for a common
// one, and that one.
func (x *Index) SpareFloors() (names []string, rest format.Mark) {
	for name, r := range x.Resources {
		if len(r.Changes) == 0 {
			names = append(names, name)
		}
	}
	if len(names) <= maxSpareFloors {
		return nil, x.Rest
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Compare(x.Resources[a].Floor.Revision, x.Resources[b].Floor.Revision)
	})
	names = names[:len(names)-maxSpareFloors/2] // half, so that it is not done each time
	rest = x.Rest
	if highest := x.Resources[names[len(names)-1]].Floor; highest.Revision > rest.Revision {
		rest = highest
	}
	return names, rest
}

// LatestBefore returns the latest retained revision in first..last committed at or
// before millis, where times do not decrease; 0 if there is none.
func (x *Index) LatestBefore(millis, first, last int64) int64 {
	var latest int64
	for _, r := range x.Resources {
		latest = max(latest, x.LatestOf(r, millis, first, last))
	}
	return latest
}

// LatestOf is LatestBefore for one resource.
func (x *Index) LatestOf(r *Resource, millis, first, last int64) int64 {
	changes := r.After(first - 1)
	changes = changes[:len(changes)-len(ChangesAfter(changes, last))]
	i, _ := slices.BinarySearchFunc(changes, millis, func(c Change, millis int64) int {
		if v, ok := x.Version(c); ok && v.Millis > millis {
			return 1
		}
		return -1
	})
	if i == 0 {
		return 0
	}
	return changes[i-1].Revision
}

// Load adds a version in any order; Finish must follow the last.
func (x *Index) Load(r format.Placed, segment uint32) {
	v := Version{
		Revision: r.Revision, Create: r.Create, Millis: r.Millis,
		Segment: segment, Offset: uint32(r.Offset), Size: uint32(r.Size), Deleted: r.Kind == format.KindDelete,
	}
	key := x.put(r.Key, v, r.Previous != 0)
	res := x.Resource(store.ResourceOf(key))
	res.Changes = append(res.Changes, Change{Revision: r.Revision, Key: key, Supersedes: r.Previous != 0})
}

// Finish puts what load added in order, drops what was compacted at or below
// compacted, and counts the live keys, and bytes. It returns what it dropped.
func (x *Index) Finish(compacted int64) []Version {
	for _, r := range x.Resources {
		if !slices.IsSortedFunc(r.Changes, ByRevision) {
			slices.SortFunc(r.Changes, ByRevision)
		}
	}
	var cut []History
	x.Keys.Scan(func(_ string, h History) bool {
		if !slices.IsSortedFunc(h.Versions, olderVersion) {
			slices.SortFunc(h.Versions, olderVersion) // it has no reader yet
		}
		if h.keep(compacted) > 0 {
			cut = append(cut, h)
		}
		return true
	})
	var dropped []Version
	gone := map[int64]bool{}
	for _, h := range cut {
		for _, v := range x.Cut(h, compacted) {
			dropped = append(dropped, v)
			gone[v.Revision] = true
		}
	}
	for _, r := range x.Resources {
		r.Changes = slices.DeleteFunc(r.Changes, func(c Change) bool { return gone[c.Revision] })
	}
	x.Keys.Scan(func(key string, h History) bool {
		r := x.Resource(store.ResourceOf(key))
		for _, v := range h.Versions {
			r.Retained += int64(v.Size)
		}
		if v := h.Versions[len(h.Versions)-1]; !v.Deleted {
			r.Live, r.LiveBytes = r.Live+1, r.LiveBytes+int64(v.Size)
			x.LiveBytes += int64(v.Size)
		}
		return true
	})
	return dropped
}

// Superseding visits every retained version beside the one that it superseded,
// which is zero if that was compacted.
func (x *Index) Superseding(visit func(v, previous Version)) {
	x.Keys.Scan(func(_ string, h History) bool {
		for i, v := range h.Versions[1:] {
			visit(v, h.Versions[i])
		}
		return true
	})
}

// ByRevision orders changes.
func ByRevision(a, b Change) int { return cmp.Compare(a.Revision, b.Revision) }

func olderVersion(a, b Version) int { return cmp.Compare(a.Revision, b.Revision) }

// keep returns the position of the first version that is still needed once
// history at or below compacted is gone.
func (h History) keep(compacted int64) int {
	i := h.At(compacted)
	switch {
	case i < 0:
		return 0
	case h.Versions[i].Deleted:
		return i + 1
	default:
		return i
	}
}

// Cut drops from the key what is gone at or below compacted, and returns it.
func (x *Index) Cut(h History, compacted int64) []Version {
	i := h.keep(compacted)
	if i == 0 {
		return nil
	}
	dropped := h.Versions[:i:i]
	if i == len(h.Versions) {
		x.Keys.Delete(h.Key)
	} else {
		x.Keys.Set(h.Key, History{Key: h.Key, Versions: slices.Clone(h.Versions[i:])})
	}
	return dropped
}

// LastSuperseding returns the newest change of r at or below revision that
// removed a version, which is the floor once history up to there is compacted.
func (r *Resource) LastSuperseding(revision int64) (Change, bool) {
	older := len(r.Changes) - len(r.After(revision))
	for i := older - 1; i >= 0; i-- {
		if r.Changes[i].Supersedes {
			return r.Changes[i], true
		}
	}
	return Change{}, false
}
