// Package stored reads one resource from a store, and decodes stored bytes into objects.
//
// A [Source] is a store with a bound on concurrent reads of its history. A [Resource] is one
// resource of it. A [Past] is the state of a resource at a past revision, read page by page.
// [Counts] cache how many objects follow the end of a page. [Versions] know the resourceVersions
// of a mirror's objects, which are not the store's revisions.
//
// A read of history holds at most a page, however long the history is and however many clients
// read it. Only Load, for the caches, returns all objects of a resource.
//
// past.go has lists at an old resourceVersion, and the memory that they need; page.go what is known of one before it is
// read, rows.go and outlines.go lists by selectors, and what is kept for the next one.
package stored

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/watchcache"
	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/internal/wire/texts"
	"github.com/gapless-io/gapless/kube"
)

// readers bounds concurrent reads of history; more wait. A read holds at most a batch of a
// feed, 4 MiB (revlog), or a page, 1 MiB or one record, and as much again for the decoded
// objects. Those of feeds are kept for other readers too (decodedBytes).
const readers = 16

// Source is a store with a bound on concurrent reads of its history.
type Source struct {
	store   store.Store
	mirror  Versions      // nil: revisions are resourceVersions
	slots   chan struct{} // holds one token for each read of history
	decoded decoded
	// outlines are of objects of the past.
	outlines *outlines
	buffers  sync.Pool // of *store.Buffer, for the values of one read
	texts    *texts.Set
}

// Versions know the resourceVersions of what a mirror stores. They are safe for concurrent
// use.
type Versions interface {
	// Stored splits a stored value into the object's resourceVersion and its JSON.
	Stored(value []byte) (rv kube.ResourceVersion, object []byte, err error)
	// Deleted is the resourceVersion of a deletion at a revision. Errors: *store.CompactedError if
	// it was compacted since it was read.
	Deleted(key string, revision int64) (kube.ResourceVersion, error)
}

// NewSource returns the source of a store's resources.
func NewSource(s store.Store) *Source { return NewMirror(s, nil) }

// NewMirror returns the source of a mirror's resources.
func NewMirror(s store.Store, v Versions) *Source {
	return &Source{
		store: s, mirror: v, slots: make(chan struct{}, readers),
		decoded: decoded{entries: map[written]kept{}, reading: map[place]chan struct{}{}, runs: map[place]*run{}},
		buffers: sync.Pool{New: func() any { return &store.Buffer{} }},
		texts:   texts.New(), outlines: newOutlines(),
	}
}

// acquire waits for a free slot. The caller calls release. It returns ctx's cause when ctx
// ends first.
func (s *Source) acquire(ctx context.Context) (release func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Resource is one resource of a source. It is safe for concurrent use.
type Resource struct {
	GR     kinds.GroupResource
	Counts Counts

	source *Source
	prefix string // of its keys in the store, with the slash
	born   int64  // the revision at which the resource's definition was created
	// wholeFrom is the revision from which on all objects can be read: see WholeFrom.
	wholeFrom atomic.Int64
	fields    atomic.Pointer[[]wire.FieldPath]
}

// Resource returns a resource whose objects have the given selectable fields.
func (s *Source) Resource(gr kinds.GroupResource, fields []wire.FieldPath) *Resource {
	return s.Named(gr.String(), gr, fields)
}

// Named returns a resource whose keys in the store have another first part than the
// resource's name.
func (s *Source) Named(name string, gr kinds.GroupResource, fields []wire.FieldPath) *Resource {
	r := &Resource{GR: gr, source: s, prefix: name + "/"}
	r.SetFields(fields)
	return r
}

// Since sets the revision at which the resource's definition was created; it is called
// before the resource is used. Older history belongs to a deleted definition of the same
// name, maybe with another scope: reads of it expire.
func (r *Resource) Since(revision int64) { r.born = revision }

// WholeFrom returns the revision at which the last value that could not be read was replaced, deleted, or
// could be read again; 0 if there was none. Nobody can go on from before: something would be missing.
func (r *Resource) WholeFrom() kube.ResourceVersion { return kube.ResourceVersion(r.wholeFrom.Load()) }

// SetWholeFrom raises what WholeFrom returns.
func (r *Resource) SetWholeFrom(rv kube.ResourceVersion) {
	r.wholeFrom.Store(max(r.wholeFrom.Load(), int64(rv)))
}

// Fields returns the selectable fields.
func (r *Resource) Fields() []wire.FieldPath { return *r.fields.Load() }

// SetFields changes the selectable fields of the objects that are read from now on.
func (r *Resource) SetFields(fields []wire.FieldPath) { r.fields.Store(&fields) }

// Key is an object's key in the store.
func (r *Resource) Key(key wire.Key) string { return r.prefix + key.String() }

// KeyOf is an object's key by its key in the store: the reverse of Key.
func (r *Resource) KeyOf(stored string) wire.Key {
	namespace, name, found := strings.Cut(stored[len(r.prefix):], "/")
	if found {
		return wire.Key{Namespace: namespace, Name: name}
	}
	return wire.Key{Name: namespace}
}

// written is a change of one of the resource's objects, by its key in the store.
func (r *Resource) written(stored string, revision int64) written {
	return written{revision: revision, key: r.KeyOf(stored)}
}

// names reports whether a key in the store is an object's: whether it is what Key returns.
func (r *Resource) names(stored string, key wire.Key) bool {
	rest, is := strings.CutPrefix(stored, r.prefix)
	if is && key.Namespace != "" {
		if rest, is = strings.CutPrefix(rest, key.Namespace); is {
			rest, is = strings.CutPrefix(rest, "/")
		}
	}
	return is && rest == key.Name
}

// Object decodes a stored value; the object shares texts in its managedFields with others. Its
// error is a *store.UnreadableError: this server did not write the value, or its bytes have changed.
func (r *Resource) Object(key string, value []byte, revision int64) (*wire.Object, error) {
	return r.objectWith(r.Fields(), key, value, revision)
}

func (r *Resource) objectWith(fields []wire.FieldPath, key string, value []byte, revision int64) (*wire.Object, error) {
	o, why := r.object(fields, key, value, revision)
	if why != nil {
		return nil, why
	}
	return o, nil
}

// object is Object with an error of its type, nil if there is none.
func (r *Resource) object(
	fields []wire.FieldPath, key string, value []byte, revision int64,
) (*wire.Object, *store.UnreadableError) {
	rv, value, err := r.version(value, revision)
	var o *wire.Object
	if err == nil {
		o, err = wire.NewSharing(value, rv, fields, r.source.texts)
	}
	return r.named(key, revision, o, err)
}

// version returns the resourceVersion of a stored value, and the object's JSON.
func (r *Resource) version(value []byte, revision int64) (kube.ResourceVersion, []byte, error) {
	if r.source.mirror != nil {
		return r.source.mirror.Stored(value)
	}
	return kube.ResourceVersion(revision), value, nil
}

// named returns an object that was decoded, or why it could not be, or is not the one of the key.
func (r *Resource) named(key string, revision int64, o *wire.Object, err error) (*wire.Object, *store.UnreadableError) {
	if err == nil && !r.names(key, o.Key()) {
		err = fmt.Errorf("it is the object %q", r.Key(o.Key()))
	}
	if err != nil {
		return nil, &store.UnreadableError{Key: key, Revision: revision, Malformed: true, Cause: err}
	}
	return o, nil
}

// Entry turns a change of the store, with all its values, into an entry of the watch cache.
func (r *Resource) Entry(c store.Change) (*watchcache.Entry, error) {
	object, previous, err := r.objects(c)
	if err != nil {
		return nil, err
	}
	return r.entryOf(c, object, previous)
}

// objects decodes the objects after and before a change, those of which it has the value.
func (r *Resource) objects(c store.Change) (object, previous *wire.Object, err error) {
	if c.Previous != nil && c.Previous.Value != nil {
		if previous, err = r.Object(c.Key, c.Previous.Value, c.Previous.ModRevision); err != nil {
			return nil, nil, err
		}
	}
	if !c.Deleted {
		object, err = r.Object(c.Key, c.Value, c.Revision)
	}
	return object, previous, err
}

// Deletion turns a deletion into an entry of the watch cache, whose last content is that of an object.
func (r *Resource) Deletion(c store.Change, last *wire.Object) (*watchcache.Entry, error) {
	return r.entryOf(c, nil, last)
}

// entryOf returns the entry of a change. object is nil for a deletion, and previous may be
// nil for an update of which it is not required.
func (r *Resource) entryOf(c store.Change, object, previous *wire.Object) (*watchcache.Entry, error) {
	rv := kube.ResourceVersion(c.Revision)
	switch {
	case c.Deleted && previous == nil:
		return nil, fmt.Errorf("deletion of %q at revision %d has no previous value", c.Key, c.Revision)
	case c.Deleted && r.source.mirror != nil:
		own, err := r.source.mirror.Deleted(c.Key, c.Revision)
		if err != nil {
			return nil, err
		}
		return watchcache.NewMirroredDeletion(rv, own, previous), nil
	case c.Deleted && c.Shared:
		return watchcache.NewSharedDeletion(rv, previous), nil
	case c.Deleted:
		return watchcache.NewDeletion(rv, previous), nil
	}
	e := watchcache.NewEntry(rv, object, previous)
	e.Replaces = c.Previous != nil
	return e, nil
}
