package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Charger charges writes to quotas, after all plugins have allowed them, and refuses those that exceed one. It is safe
// for concurrent use.
type Charger interface {
	// Concerns reports whether a write may be charged. It is called for each write of a client, and answers from memory.
	Concerns(t kinds.Target, op upstream.Operation) bool
	// Charge charges a write, before it is done; a dry run it only checks. It returns what is called once with what has
	// become of the write; nil if nothing was charged. Errors are answered as they are.
	Charge(ctx context.Context, a upstream.Attributes) (settle func(ctx context.Context, o Outcome), err error)
}

// Outcome is what has become of a write.
type Outcome int

// The outcomes of a write.
const (
	Refused  Outcome = iota // it has no effect, and never will have, or was given up
	Stored                  // it is done, and readers see it
	Doubtful                // it may have taken effect, or take it later
)

// Attributes are those of a write: of an object in the version of the request, nil for a deletion, and of the stored
// one, nil for a creation.
func (r Request) Attributes(u, old *unstructured.Unstructured) upstream.Attributes {
	return r.attributesOf(r.Target.Resource.GVK(), u, old)
}

// attributesOf are upstream's, where a missing object is nil and no empty pointer.
func (r Request) attributesOf(kind kinds.GroupVersionKind, u, old *unstructured.Unstructured) upstream.Attributes {
	var object, oldObject runtime.Object
	name := r.Target.Name
	if u != nil {
		object = u
		if name == "" {
			name = u.GetName()
		}
	}
	if old != nil {
		oldObject = old
	}
	t, namespace := r.Target, r.Target.Namespace
	if namespace == "" && t.Resource.GR() == namespaces {
		namespace = name // a namespace is in itself, as in upstream's handlers
	}
	return upstream.NewAttributesRecord(object, oldObject, kind, namespace, name, t.Resource.GVR(), t.Subresource,
		r.Operation, r.Options, r.DryRun, t.Caller)
}
