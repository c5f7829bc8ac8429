package registry

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/store"
	"github.com/gapless-io/gapless/internal/wire"
)

// Allocator gives the objects of a resource what no two of them may have, such as addresses. It is safe for
// concurrent use.
type Allocator interface {
	// Allocate fills in, in place, what an object must have: u is a new one, or the new form of old, which is nil for
	// a creation. Plugins have seen it, and its rules are not checked yet. What is taken for it is reserved, and what
	// it no longer has is kept, until end says what became of the write; it is called once, and may write. A dry run
	// reserves nothing. Errors are for the client.
	Allocate(ctx context.Context, u, old *unstructured.Unstructured,
		dryRun bool) (end func(context.Context, admission.Outcome), err error)
	// Release gives back what an object had that was removed. It may write.
	Release(ctx context.Context, last *wire.Object)
}

// outcomeOf says what an error of Commit means; without one the write is not seen yet.
func outcomeOf(err error) admission.Outcome {
	if err == nil {
		return admission.Doubtful
	}
	_, conflict := errors.AsType[*store.ConflictError](err)
	_, away := errors.AsType[*store.UnavailableError](err)
	_, large := errors.AsType[*store.TooLargeError](err)
	_, unread := errors.AsType[*store.UnreadableError](err) // another object is there
	refused := conflict || away || large || unread || errors.Is(err, store.ErrInvalid)
	if refused && !errors.Is(err, store.ErrOutcomeUnknown) {
		return admission.Refused
	}
	return admission.Doubtful
}

// allocate asks the allocator of the target's resource, if it has one. end is nil without.
func (r *Registry) allocate(ctx context.Context, w write,
	u, old *unstructured.Unstructured,
) (end func(admission.Outcome), err error) {
	a := r.allocators[w.target.Resource.GR()]
	if a == nil || w.target.Subresource != "" {
		return nil, nil
	}
	done, err := a.Allocate(ctx, u, old, w.dryRun)
	if err != nil {
		return nil, err
	}
	lasting := context.WithoutCancel(ctx) // a client that leaves takes nothing with it
	return func(o admission.Outcome) { done(lasting, o) }, nil
}

// allocated returns the decision that decide makes, with what was allocated for it, which is given back if there is none,
// also after a panic.
func allocated(end func(admission.Outcome), decide func() (decision, error)) (d decision, err error) {
	if end == nil {
		return decide()
	}
	kept := false
	defer func() {
		if !kept {
			end(admission.Refused)
		}
	}()
	if d, err = decide(); err != nil || d.remove {
		return d, err
	}
	kept = true
	d.became = append(d.became, end)
	return d, nil
}

// giveBack gives back what a removed object had.
func (r *Registry) giveBack(ctx context.Context, w write, last *wire.Object) {
	if a := r.allocators[w.target.Resource.GR()]; a != nil {
		a.Release(context.WithoutCancel(ctx), last)
	}
}
