package quota

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// decodeOf returns what decodes a stored object into a Go struct.
func decodeOf(o *wire.Object) func(into any) error {
	return func(into any) error { return json.Unmarshal(o.JSON(), into) }
}

// ItemOf returns a stored object of a kind.
func (k Kind) ItemOf(o *wire.Object) (Item, error) { return k.Item(decodeOf(o)) }

// Quota is a ResourceQuota. It is not changed.
type Quota struct {
	corev1.ResourceQuota

	// Scopes are all that must select an object.
	Scopes []corev1.ScopedResourceSelectorRequirement
	// Stored is where it was read.
	Stored *wire.Object
}

// Read decodes a stored ResourceQuota.
func Read(o *wire.Object) (*Quota, error) {
	q := &Quota{Stored: o}
	if err := decodeOf(o)(&q.ResourceQuota); err != nil {
		return nil, fmt.Errorf("decode the ResourceQuota %s: %w", o.Key(), err)
	}
	for _, scope := range q.Spec.Scopes {
		q.Scopes = append(q.Scopes, corev1.ScopedResourceSelectorRequirement{
			ScopeName: scope, Operator: corev1.ScopeSelectorOpExists,
		})
	}
	if q.Spec.ScopeSelector != nil {
		q.Scopes = append(q.Scopes, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return q, nil
}

// Selects reports whether all scopes of the quota select an object. Errors: a selector that is none.
func (q *Quota) Selects(i Item) (bool, error) {
	for _, s := range q.Scopes {
		if in, err := i.InScope(s); err != nil || !in {
			return false, err
		}
	}
	return true, nil
}

// Table is the ResourceQuotas. It is a registry.Follower: what a client has written is in it before the client is
// answered. Objects are decoded when they are first needed. It is safe for concurrent use.
type Table struct {
	// Deleted is called for a quota that is gone, if it is not nil. It must not block.
	Deleted func(key wire.Key)

	// mu guards of.
	mu sync.RWMutex
	of map[string]*space
}

// space is the quotas of a namespace.
type space struct {
	// mu guards what follows.
	mu     sync.Mutex
	stored map[string]*wire.Object
	read   map[string]*Quota // of stored, where it is the same object
	sorted []*Quota          // by their names, since the last change; nil: not known
	known  map[kinds.GroupResource]bool
}

// NewTable returns an empty table.
func NewTable() *Table { return &Table{of: map[string]*space{}} }

// Follows implements registry.Follower.
func (*Table) Follows() []kinds.GroupResource { return []kinds.GroupResource{Quotas()} }

// Replace implements registry.Follower.
func (t *Table) Replace(_ kinds.GroupResource, objects []*wire.Object) {
	t.mu.Lock()
	clear(t.of)
	t.mu.Unlock()
	for _, o := range objects {
		t.Change(Quotas(), o, false)
	}
}

// Change implements registry.Follower.
func (t *Table) Change(_ kinds.GroupResource, o *wire.Object, deleted bool) {
	key := o.Key()
	t.mu.Lock()
	s := t.of[key.Namespace]
	if s == nil {
		s = &space{stored: map[string]*wire.Object{}, read: map[string]*Quota{}}
		t.of[key.Namespace] = s
	}
	if left := s.change(o, deleted); left == 0 {
		delete(t.of, key.Namespace)
	}
	t.mu.Unlock()
	if deleted && t.Deleted != nil {
		t.Deleted(key)
	}
}

func (s *space) change(o *wire.Object, deleted bool) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := o.Key().Name
	s.sorted, s.known = nil, nil
	if deleted {
		delete(s.stored, name)
		delete(s.read, name)
	} else {
		s.stored[name] = o
	}
	return len(s.stored)
}

// In returns the quotas of a namespace, by their names; the caller does not change the slice. Errors: one that cannot be
// decoded.
func (t *Table) In(namespace string) ([]*Quota, error) {
	s := t.space(namespace)
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allLocked()
}

func (t *Table) space(namespace string) *space {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.of[namespace]
}

func (s *space) allLocked() ([]*Quota, error) {
	if s.sorted != nil {
		return s.sorted, nil
	}
	all := make([]*Quota, 0, len(s.stored))
	for name, o := range s.stored {
		q := s.read[name]
		if q == nil || q.Stored != o {
			var err error
			if q, err = Read(o); err != nil {
				return nil, err
			}
			s.read[name] = q
		}
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *Quota) int { return cmp.Compare(a.Name, b.Name) })
	s.sorted = all
	return all, nil
}

// Has reports whether a namespace has quotas.
func (t *Table) Has(namespace string) bool { return t.space(namespace) != nil }

// Limits reports whether a quota of a namespace limits objects of a resource by what its status says; true also if a
// quota cannot be decoded. It allocates nothing unless a quota of the namespace has changed, or it is about ResourceClaims.
func (t *Table) Limits(namespace string, gr kinds.GroupResource, classes Classes) bool {
	s := t.space(namespace)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if limits, known := s.known[gr]; known && gr != resourceClaims { // these depend on the DeviceClasses
		return limits
	}
	k, counted := KindOf(gr, classes)
	all, err := s.allLocked()
	if err != nil {
		return true
	}
	limits := counted && slices.ContainsFunc(all, func(q *Quota) bool { return len(k.Matching(q.Status.Hard)) > 0 })
	if s.known == nil {
		s.known = map[kinds.GroupResource]bool{}
	}
	s.known[gr] = limits
	return limits
}
