package watchcache

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gapless-io/gapless/kube"
)

// Selection says which objects of a resource a reader wants. The zero value is
// all of them; an empty or nil member selects everything.
type Selection struct {
	Namespace string
	Name      string
	Labels    labels.Selector
	Fields    fields.Selector
	Shard     *kube.Shard // last to be asked: it hashes
	// APIVersion is the version in which a cursor shows the objects, "" for the one in
	// which they are stored. It selects nothing.
	APIVersion string
}

// Everything says that the selection excludes nothing.
func (s Selection) Everything() bool {
	return s.Namespace == "" && s.Name == "" && !s.selects()
}

// selects says that a selector must look into the object.
func (s Selection) selects() bool {
	return (s.Labels != nil && !s.Labels.Empty()) || (s.Fields != nil && !s.Fields.Empty()) || s.Shard != nil
}

// Matches says whether the selection has o in it.
func (s Selection) Matches(o *kube.Object) bool {
	key := o.Key()
	switch {
	case s.Namespace != "" && key.Namespace != s.Namespace:
		return false
	case s.Name != "" && key.Name != s.Name:
		return false
	case s.Labels != nil && !s.Labels.Matches(o.Labels()):
		return false
	case s.Fields != nil && !s.Fields.Matches(o.Fields()):
		return false
	case s.Shard != nil && !s.Shard.Matches(o):
		return false
	}
	return true
}

// transition says as what a watcher of the selection sees e: Added, Modified or
// Deleted, or 0 when it does not concern it (server.md 3.2).
func (s Selection) transition(e *Entry) kube.EventType {
	was := e.Previous != nil && s.Matches(e.Previous)
	is := !e.Deleted && s.Matches(e.Object)
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
