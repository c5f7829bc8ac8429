package plugins

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Namespaced is the objects of a resource that plugins look up by their namespace, such as LimitRanges. It is a
// registry.Follower: what a client has written is in it before the client is answered. Objects are decoded when they are
// first needed. What it costs to look at those of one namespace does not depend on others. It is safe for concurrent use.
type Namespaced[T any] struct {
	// Unknown is Cluster.UnknownOf, so that an object that cannot be read is not taken for missing; nil: all can be read.
	Unknown func(gr kinds.GroupResource, namespace, name string) error

	of kinds.GroupResource

	// mu guards what follows.
	mu         sync.Mutex
	namespaces map[string]*inNamespace[T] // those that have objects
}

// inNamespace is the objects of one namespace by name.
type inNamespace[T any] struct {
	rows   map[string]*row[T]
	sorted []*T // in the order of their names, never changed; nil: not known
}

// NewNamespaced returns an empty table.
func NewNamespaced[T any](of kinds.GroupResource) *Namespaced[T] {
	return &Namespaced[T]{of: of, namespaces: map[string]*inNamespace[T]{}}
}

// Follows implements registry.Follower.
func (t *Namespaced[T]) Follows() []kinds.GroupResource { return []kinds.GroupResource{t.of} }

// Replace implements registry.Follower.
func (t *Namespaced[T]) Replace(_ kinds.GroupResource, objects []*wire.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.namespaces)
	for _, o := range objects {
		t.putLocked(o)
	}
}

// Change implements registry.Follower.
func (t *Namespaced[T]) Change(_ kinds.GroupResource, o *wire.Object, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !deleted {
		t.putLocked(o)
		return
	}
	key := o.Key()
	in := t.namespaces[key.Namespace]
	if in == nil {
		return
	}
	delete(in.rows, key.Name)
	in.sorted = nil
	if len(in.rows) == 0 {
		delete(t.namespaces, key.Namespace)
	}
}

func (t *Namespaced[T]) putLocked(o *wire.Object) {
	key := o.Key()
	in := t.namespaces[key.Namespace]
	if in == nil {
		in = &inNamespace[T]{rows: map[string]*row[T]{}}
		t.namespaces[key.Namespace] = in
	}
	in.rows[key.Name], in.sorted = &row[T]{stored: o}, nil
}

// In returns the objects of a namespace in the order of their names; the caller does not change the slice and the
// objects. Errors: one of them cannot be read, or decoded.
func (t *Namespaced[T]) In(namespace string) ([]*T, error) {
	if t.Unknown != nil {
		if err := t.Unknown(t.of, namespace, ""); err != nil { // before the look
			return nil, err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.namespaces[namespace]
	if in == nil || in.sorted != nil {
		return in.all(), nil
	}
	sorted := make([]*T, 0, len(in.rows))
	for _, name := range slices.Sorted(maps.Keys(in.rows)) {
		o, err := in.rows[name].decode()
		if err != nil {
			return nil, fmt.Errorf("read %s %s/%s: %w", t.of, namespace, name, err)
		}
		sorted = append(sorted, o)
	}
	in.sorted = sorted
	return sorted, nil
}

func (in *inNamespace[T]) all() []*T {
	if in == nil {
		return nil
	}
	return in.sorted
}
