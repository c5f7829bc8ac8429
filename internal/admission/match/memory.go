package match

import (
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Question is what requests have in common that the same plans are for.
type Question struct {
	Resource    kinds.GroupVersionResource
	Subresource string
	Operation   admission.Operation
}

// QuestionOf returns the question of a request.
func QuestionOf(a admission.Attributes) Question {
	return Question{a.GetResource(), a.GetSubresource(), a.GetOperation()}
}

// Memory remembers what was found for questions while the same resources are served. There are
// no more questions than resources with their subresources and operations. The zero value is
// empty; it is safe for concurrent use.
type Memory[T any] struct{ known atomic.Pointer[remembered] }

type remembered struct {
	of *kinds.Catalog
	by sync.Map // of Question to *T
}

// Of returns what find has found for a question. It is nil, and nothing is remembered, for a
// resource that is not served.
func (m *Memory[T]) Of(catalog *kinds.Catalog, q Question, find func() *T) *T {
	all := m.known.Load()
	if all == nil || all.of != catalog {
		all = &remembered{of: catalog}
		m.known.Store(all)
	}
	if found, is := all.by.Load(q); is {
		return found.(*T) //nolint:forcetypeassert // there is nothing else in it
	}
	if _, served := catalog.Lookup(q.Resource); !served {
		return nil
	}
	found := find()
	all.by.Store(q, found)
	return found
}
