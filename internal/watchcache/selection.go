package watchcache

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/internal/wire"
	"github.com/gapless-io/gapless/kube"
)

// Selection selects objects of a resource. The zero value is
// all of them; an empty or nil member selects everything.
type Selection struct {
	Namespace string
	Name      string
	Labels    labels.Selector
	Fields    fields.Selector
	Shard     *kube.Shard // checked last: it hashes
	// Previous says that the reader needs the object before each change. It does not select.
	Previous bool
	// Read returns the read form of a stored object; nil: that is the object itself. Fields are
	// selected by it, and a cursor returns it. It must not fail, and not block, and it returns the
	// same object each time, unless a schema has changed meanwhile.
	Read func(o *wire.Object) *wire.Object
	// Form is the version in which a cursor returns objects; nil is the stored one.
	// It does not select.
	Form *Form
}

// Form is a version in which objects are returned.
type Form struct {
	APIVersion string // identifies the form
	// Convert makes it of a read form; it must not fail, and not block.
	Convert func(o *wire.Object) *wire.Object
}

// formOf returns the read form of an object that read makes (Selection.Read).
func formOf(o *wire.Object, read func(o *wire.Object) *wire.Object) *wire.Object {
	if read == nil {
		return o
	}
	return read(o)
}

// Everything reports whether the selection includes all objects.
func (s Selection) Everything() bool {
	return s.Namespace == "" && s.Name == "" && !s.LooksInside()
}

// LooksInside reports whether a selector must look into an object, so that an object can
// enter and leave the selection by a change. Otherwise its key decides.
func (s Selection) LooksInside() bool {
	return (s.Labels != nil && !s.Labels.Empty()) || (s.Fields != nil && !s.Fields.Empty()) || s.Shard != nil
}

// NeedsPrevious reports whether entries must have the object before the change.
func (s Selection) NeedsPrevious() bool { return s.Previous || s.LooksInside() }

// Matches reports whether the selection includes o.
func (s Selection) Matches(o *wire.Object) bool {
	key := o.Key()
	switch {
	case s.Namespace != "" && key.Namespace != s.Namespace:
		return false
	case s.Name != "" && key.Name != s.Name:
		return false
	case s.Labels != nil && !s.Labels.Empty() && !s.Labels.Matches(o.Labels()):
		return false
	case s.Fields != nil && !s.Fields.Empty() && !s.Fields.Matches(formOf(o, s.Read).Fields()):
		return false
	case s.Shard != nil && !s.Shard.Includes(key.Namespace, o.UID()):
		return false
	}
	return true
}

// Event returns what an entry is for a watcher of the selection, and whether it is anything. The entry has its previous
// object if the selection looks inside.
func (s Selection) Event(e *Entry) (event wire.WatchEvent, selected bool) {
	t := s.transition(e)
	if t == 0 {
		return wire.WatchEvent{}, false
	}
	return e.event(t, &s), true
}

// transition returns the type of e for a watcher of the selection: Added, Modified or
// Deleted, or 0 if the selection does not match it. e has its previous object if the
// selection looks inside (see Cache.read).
func (s Selection) transition(e *Entry) kube.EventType {
	matches := s.Matches(e.Object)
	is, was := matches && !e.Deleted, matches && e.Replaces
	if e.Previous != nil && !e.Deleted && s.LooksInside() {
		was = s.Matches(e.Previous)
	}
	switch {
	case is && was:
		return kube.Modified
	case is:
		return kube.Added
	case was:
		return kube.Deleted
	}
	return 0
}
