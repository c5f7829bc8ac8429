// Package schema knows the resource types that the server serves.
//
// It has three nouns. A [Resource] is one served version of one resource type:
// its names, scope, verbs, how a body of it is decoded, defaulted, pruned and
// validated, and how it is shown. A [Catalog] is an immutable set of them, the
// built-in kinds and the custom ones. [Live] holds the current catalog for
// everyone, and is swapped when a CustomResourceDefinition changes.
package schema

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Target is what a verb acts on: a resource, or one object or subresource of it.
type Target struct {
	Resource    *Resource
	Namespace   string // "" for cluster-scoped resources, and for all namespaces
	Name        string // "" for a collection
	Subresource string // "", "status" or "scale"
}

// GroupVersionResource is apimachinery's.
type GroupVersionResource = schema.GroupVersionResource

// GroupVersionKind is apimachinery's.
type GroupVersionKind = schema.GroupVersionKind

// GroupResource is apimachinery's.
type GroupResource = schema.GroupResource

// Live is the catalog that is in force now. Readers load it once per request;
// only the registry stores.
type Live struct {
	current atomic.Pointer[Catalog]
}

// NewLive returns a holder whose current catalog is c.
func NewLive(c *Catalog) *Live {
	l := &Live{}
	l.current.Store(c)
	return l
}

// Load returns the catalog in force; it is immutable.
func (l *Live) Load() *Catalog { return l.current.Load() }

// Store puts a new catalog in force.
func (l *Live) Store(c *Catalog) { l.current.Store(c) }
