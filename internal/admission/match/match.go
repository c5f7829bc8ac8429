// Package match decides which requests a webhook or a policy asks for.
//
// A [Matcher] knows what the server serves and the labels of its namespaces. [Criteria] are what
// a webhook, a policy or a binding asks for, read once. A [Plan] is what is left to decide about
// requests for one resource; a [Memory] keeps plans, and a [Sieve] finds those that a request may
// match. [Views] are the objects of a request in the versions by which it matches. The semantics
// are those of k8s.io/apiserver's admission/plugin/policy/matching and
// admission/plugin/webhook/predicates.
package match

import (
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Objects finds the current objects of a resource, in the version in which they are stored.
type Objects interface {
	// Find returns an object; nil if there is none.
	Find(gr kinds.GroupResource, key wire.Key) *wire.Object
}

// Matcher decides about requests by what is served and stored now. It is safe for concurrent
// use.
type Matcher struct {
	live    *kinds.Live
	objects Objects
	known   atomic.Pointer[families]
}

// New returns a matcher. It reads nothing.
func New(live *kinds.Live, objects Objects) *Matcher { return &Matcher{live: live, objects: objects} }

// families are the resources of a catalog, by the resource that stores their objects.
type families struct {
	of   *kinds.Catalog
	home map[kinds.GroupResource][]*kinds.Resource
}

func (m *Matcher) families() *families {
	catalog := m.live.Load()
	if known := m.known.Load(); known != nil && known.of == catalog {
		return known
	}
	made := &families{of: catalog, home: map[kinds.GroupResource][]*kinds.Resource{}}
	for _, r := range catalog.Resources() {
		home := r.Home().GR()
		made.home[home] = append(made.home[home], r)
	}
	m.known.Store(made)
	return made
}

// Equivalents returns the resources that have the same objects, in any version that is
// served and has the subresource, in the order of discovery; gvr is among them.
func (m *Matcher) Equivalents(gvr kinds.GroupVersionResource, subresource string) []kinds.GroupVersionResource {
	known := m.families()
	r, served := known.of.Lookup(gvr)
	if !served {
		return nil
	}
	var all []kinds.GroupVersionResource
	for _, other := range known.home[r.Home().GR()] {
		if !kindOf(other, subresource).Empty() {
			all = append(all, other.GVR())
		}
	}
	return all
}

// KindFor returns the kind of the bodies of a resource or subresource; it is empty if that is
// not served.
func (m *Matcher) KindFor(gvr kinds.GroupVersionResource, subresource string) kinds.GroupVersionKind {
	r, served := m.live.Load().Lookup(gvr)
	if !served {
		return kinds.GroupVersionKind{}
	}
	return kindOf(r, subresource)
}

func kindOf(r *kinds.Resource, subresource string) kinds.GroupVersionKind {
	switch {
	case subresource == "", subresource == "status" && r.HasStatus:
		return r.GVK()
	case subresource == "scale" && r.Scale != nil:
		return kinds.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	}
	if sub := r.Subresource(subresource); sub != nil {
		return sub.Kind
	}
	return kinds.GroupVersionKind{}
}

// Namespace reports whether the namespace of a request has the labels of a selector. A
// request about a cluster-scoped object is always selected, except one about a namespace
// itself. Errors: 404 when there is no such namespace.
func (m *Matcher) Namespace(selector labels.Selector, a admission.Attributes) (bool, *apierrors.StatusError) {
	if selector.Empty() {
		return true, nil
	}
	has, all, err := m.namespaceLabels(a)
	if err != nil {
		return false, err
	}
	return all || selector.Matches(has), nil
}

// namespaceLabels returns the labels of the namespace of a request, or all: every selector
// selects it.
func (m *Matcher) namespaceLabels(a admission.Attributes) (has labels.Set, all bool, err *apierrors.StatusError) {
	isNamespace := a.GetResource().Resource == "namespaces"
	if a.GetNamespace() == "" && !isNamespace {
		return nil, true, nil
	}
	// What is created or changed is not stored yet.
	if isNamespace && a.GetSubresource() == "" && (a.GetOperation() == admission.Create || a.GetOperation() == admission.Update) {
		object, err := meta.Accessor(a.GetObject())
		if err != nil {
			return nil, false, apierrors.NewInternalError(err)
		}
		return object.GetLabels(), false, nil
	}
	name := a.GetNamespace()
	if name == "" {
		name = a.GetName()
	}
	namespace := m.objects.Find(Namespaces, wire.Key{Name: name})
	if namespace == nil {
		return nil, false, apierrors.NewNotFound(Namespaces, name)
	}
	return namespace.Labels(), false, nil
}

// Namespaces is the resource of namespaces.
//
//nolint:gochecknoglobals // a name
var Namespaces = k8sschema.GroupResource{Resource: "namespaces"}

// Object reports whether the new or the old object of a request has the labels of a selector.
func Object(selector labels.Selector, a admission.Attributes) bool {
	return selector.Empty() || selects(selector, a.GetObject()) || selects(selector, a.GetOldObject())
}

func selects(selector labels.Selector, o runtime.Object) bool {
	if o == nil {
		return false
	}
	object, err := meta.Accessor(o)
	return err == nil && selector.Matches(labels.Set(object.GetLabels()))
}
