package plugins

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Table is the objects of a resource that plugins look up, such as classes. It is a registry.Follower:
// what a client has written is in it before the client is answered. Objects are decoded when they are first needed.
// It is safe for concurrent use.
type Table[T any] struct {
	// Unknown is Cluster.UnknownOf, so that an object that cannot be read is not taken for missing; nil: all can be read.
	Unknown func(gr kinds.GroupResource, namespace, name string) error

	of     kinds.GroupResource
	better func(a, b *T) bool

	// mu guards what follows.
	mu       sync.Mutex
	rows     map[wire.Key]*row[T]
	chosen   *T // since the last change, if isChosen
	isChosen bool
}

type row[T any] struct {
	stored  *wire.Object
	decoded *T
	err     error
}

// NewTable returns an empty table. Better says which of two objects Best returns, and with b nil whether it may
// return a at all; it is nil for a table without a best one.
func NewTable[T any](of kinds.GroupResource, better func(a, b *T) bool) *Table[T] {
	return &Table[T]{of: of, better: better, rows: map[wire.Key]*row[T]{}}
}

// Follows implements registry.Follower.
func (t *Table[T]) Follows() []kinds.GroupResource { return []kinds.GroupResource{t.of} }

// Replace implements registry.Follower.
func (t *Table[T]) Replace(_ kinds.GroupResource, objects []*wire.Object) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chosen, t.isChosen = nil, false
	clear(t.rows)
	for _, o := range objects {
		t.rows[o.Key()] = &row[T]{stored: o}
	}
}

// Change implements registry.Follower.
func (t *Table[T]) Change(_ kinds.GroupResource, o *wire.Object, deleted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chosen, t.isChosen = nil, false
	if deleted {
		delete(t.rows, o.Key())
		return
	}
	t.rows[o.Key()] = &row[T]{stored: o}
}

// Get returns an object, which the caller does not change; nil if there is none. Errors: it cannot be read, or decoded.
func (t *Table[T]) Get(key wire.Key) (*T, error) {
	if err := t.known(key.Namespace, key.Name); err != nil { // before the look
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rows[key]
	if r == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	return r.decode()
}

// Best returns the best of all objects, which the caller does not change; nil if there is none that may be it. Errors:
// one of them cannot be read, or decoded, and may be the best.
func (t *Table[T]) Best() (*T, error) {
	if err := t.known("", ""); err != nil { // before the look
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isChosen {
		return t.chosen, nil
	}
	var best *T
	for key, r := range t.rows {
		o, err := r.decode()
		if err != nil {
			return nil, fmt.Errorf("read %s %s: %w", t.of, key.Name, err)
		}
		if t.better(o, nil) && (best == nil || t.better(o, best)) {
			best = o
		}
	}
	t.chosen, t.isChosen = best, true
	return best, nil
}

func (t *Table[T]) known(namespace, name string) error {
	if t.Unknown == nil {
		return nil
	}
	return t.Unknown(t.of, namespace, name)
}

func (r *row[T]) decode() (*T, error) {
	if r.decoded == nil && r.err == nil {
		var o T
		if r.err = json.Unmarshal(r.stored.JSON(), &o); r.err == nil {
			r.decoded = &o
		}
	}
	return r.decoded, r.err
}
