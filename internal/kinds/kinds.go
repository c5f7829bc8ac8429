// Package kinds has the resource types that the server serves.
//
// A [Resource] is one served version of one resource type: its names and scope, what its [Type]
// does with bodies (decode, default, validate), what writes and deletions of its objects do
// ([Writes], [Deletes]), what selects them ([Selectable]), and how they are shown ([Table]). A
// [Subresource] is a part of an object with a path of its own. A [Reading] says what readers see of
// a stored object. A [Conversion] makes a resource a view of another one.
//
// A [Catalog] is an immutable set of resources, built-in (package builtin, which has them from a
// package for each API group) and custom (package custom). [Live] holds the current catalog, which
// the registry replaces when a CustomResourceDefinition changes.
//
// reading.go has what the present schema makes of a stored object (docs/decisions/0018);
// conversion.go kinds that are views of another one; subresource.go subresources; table.go
// columns; body.go (CheckSize) bounds on one request. How a body is decoded is in packages
// jsontree, gotype (built-in kinds) and custom (custom/members.go); docs/decisions/0011.
package kinds

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// Target is what a verb acts on: a resource, or one object or subresource of it.
type Target struct {
	Resource    *Resource
	Namespace   string // "" for cluster-scoped resources, and for all namespaces
	Name        string // "" for a collection
	Subresource string // "", "status", "scale", or one of Resource.Subresources
	// AsStored leaves objects in the version in which they are stored. It is for readers of
	// metadata inside the server, which need no webhook.
	AsStored bool
	// Caller is the user of the request; nil for the server itself.
	Caller user.Info
	// Manager manages the fields of a write whose options name no manager. Admission plugins
	// see the options as they are.
	Manager string
	// MayCreate is asked before an update or an apply creates an object; its error is the
	// answer. Nil: it may.
	MayCreate func(ctx context.Context) error
	// MayDeleteUnread is asked before a deletion whose options say that the object need not be readable;
	// its error is the answer. Nil: it may.
	MayDeleteUnread func(ctx context.Context) error
	// Wrote gets the revision of each change that a write has made of the target's resource, also if the write fails
	// after that; by several goroutines at once. Nil: nobody asks.
	Wrote func(revision int64)
}

// Key is the key of a target's object.
func (t Target) Key() wire.Key {
	if !t.Resource.Namespaced {
		return wire.Key{Name: t.Name}
	}
	return wire.Key{Namespace: t.Namespace, Name: t.Name}
}

// GroupVersionResource is apimachinery's.
type GroupVersionResource = schema.GroupVersionResource

// GroupVersionKind is apimachinery's.
type GroupVersionKind = schema.GroupVersionKind

// GroupResource is apimachinery's.
type GroupResource = schema.GroupResource

// Live is the current catalog. Readers load it once per request; only the registry
// stores.
type Live struct {
	current atomic.Pointer[Catalog]
}

// NewLive returns a holder whose current catalog is c.
func NewLive(c *Catalog) *Live {
	l := &Live{}
	l.current.Store(c)
	return l
}

// Load returns the current catalog; it is immutable.
func (l *Live) Load() *Catalog { return l.current.Load() }

// Store replaces the current catalog.
func (l *Live) Store(c *Catalog) { l.current.Store(c) }
