package registry

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/lifecycle"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// deleters is how many objects of a collection are deleted at once, so that they
// share the syncs of the store. Their order is none: upstream's is that of the names
// with its default of one worker.
const deleters = 16

// DeleteCollection deletes what o selects, in the state that it asks for, and
// returns what was deleted (or marked), as it was before, as upstream. It leaves out
// objects that were deleted meanwhile, even if others of the same name exist now.
// Errors: those of List and Delete; what was deleted before stays deleted.
func (r *Registry) DeleteCollection(
	ctx context.Context, t kinds.Target, d metav1.DeleteOptions, o wire.ListOptions,
) (_ *wire.List, err error) {
	ctx, span := tracing.Start(ctx, "DeleteCollection")
	defer func() { span.End(err) }()
	if err := invalidOptions("DeleteOptions", metavalidation.ValidateDeleteOptions(&d)); err != nil {
		return nil, err
	}
	if unsafe(d) {
		return nil, invalidOptions("DeleteOptions", field.ErrorList{
			field.Invalid(field.NewPath(unsafeOption), true,
				"is not allowed with DELETECOLLECTION, try again after removing the option"),
		})
	}
	w, err := r.newWrite(t, d.DryRun)
	if err != nil {
		return nil, err
	}
	w = r.asked(w, admission.Delete, &d) // without the names, as upstream
	list, err := r.List(ctx, t, o)
	if err != nil {
		return nil, err
	}
	var items []*wire.Object
	for o, err := range list.Items {
		if err != nil {
			return nil, err
		}
		items = append(items, o)
	}
	deleted, err := r.deleteEach(ctx, w, items, func(*wire.Object) metav1.DeleteOptions { return d })
	if err != nil {
		return nil, err
	}
	list.Versions = nil // others than its own may have deleted some
	list.Items = func(yield func(*wire.Object, error) bool) {
		for i, o := range items {
			if deleted[i].object != nil && !yield(o, nil) {
				return
			}
		}
	}
	return list, nil
}

// deleteEach deletes objects of one kind, several at a time, and returns what
// became of each: an empty outcome for one that was gone already.
func (r *Registry) deleteEach(
	ctx context.Context, w write, items []*wire.Object, options func(*wire.Object) metav1.DeleteOptions,
) ([]outcome, error) {
	outcomes := make([]outcome, len(items))
	errs := make([]error, len(items))
	next := make(chan int)
	var failed atomic.Bool
	var wg sync.WaitGroup
	// They are deleteEach's, and end when next is closed.
	for range min(deleters, len(items)) {
		wg.Go(func() {
			for i := range next {
				if outcomes[i], errs[i] = r.deleteItem(ctx, w, items[i], options(items[i])); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	for i := range items {
		// Those that others have begun go on to their end, as upstream's: a failure of one is no
		// reason to leave another halfway.
		if failed.Load() || ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return outcomes, context.Cause(ctx)
}

// deleteItem deletes the object that was listed, not a later one of the same name.
func (r *Registry) deleteItem(ctx context.Context, w write, item *wire.Object, o metav1.DeleteOptions) (outcome, error) {
	w.target.Namespace, w.target.Name = item.Key().Namespace, item.Key().Name
	if err := lifecycle.CheckDelete(w.target); err != nil {
		return outcome{}, err
	}
	own := o.Preconditions == nil
	if own {
		uid := item.UID()
		o.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	out, err := r.delete(ctx, w, o)
	if e, is := errors.AsType[*wire.StatusError](err); is {
		gone := e.ErrStatus.Reason == metav1.StatusReasonNotFound || own && e.ErrStatus.Reason == metav1.StatusReasonConflict
		if gone {
			return outcome{}, nil
		}
	}
	return out, err
}
