package registry

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/lifecycle"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// Delete removes an object, or marks it as being deleted when finalizers or a
// grace period hold it. The answer is a Status, or the object where it is held or
// its kind wants that. Errors: 403, 404, 409 for preconditions, 422.
//
// The policies Foreground and Orphan hold the object by a finalizer until a collector has
// done its work: the registry's, or that of another program.
//
// With ignoreStoreReadErrorWithClusterBreakingPotential it removes an object only if that cannot be read:
// see deleteUnread.
func (r *Registry) Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (_ wire.Written, err error) {
	ctx, span := tracing.Start(ctx, "Delete")
	defer func() { span.End(err) }()
	if err := invalidOptions("DeleteOptions", metavalidation.ValidateDeleteOptions(&o)); err != nil {
		return wire.Written{}, err
	}
	w, err := r.newWrite(t, o.DryRun)
	if err != nil {
		return wire.Written{}, err
	}
	if unsafe(o) {
		return r.deleteUnread(ctx, w)
	}
	if err := lifecycle.CheckDelete(t); err != nil {
		return wire.Written{}, err
	}
	warnings := strategy.DeleteWarnings(t.Resource, o) // also of a deletion that is refused, as upstream
	out, err := r.delete(ctx, r.asked(w, admission.Delete, &o), o)
	if err != nil {
		return wire.Written{Warnings: warnings}, err
	}
	if out.removed && !t.Resource.ReturnDeleted {
		return wire.Written{Status: removed(t, out.object), Warnings: warnings}, nil
	}
	if t.AsStored {
		return wire.Written{Object: out.object, Warnings: warnings}, nil
	}
	return r.writtenAs(ctx, t, wire.Written{Object: out.object, Warnings: warnings})
}

// removed is the answer to a deletion that took effect at once.
func removed(t kinds.Target, last *wire.Object) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name: last.Key().Name, Group: t.Resource.Group, Kind: t.Resource.Plural, UID: last.UID(),
		},
	}
}

// delete deletes one object as far as it may be deleted now. An object of a kind that has
// grace periods, and that gets none, is deleted in two steps, as upstream does it: readers see
// first that it is being deleted, and then that it is gone. When the server ends, or the client
// leaves, between the two, the object stays marked, and another deletion removes it.
func (r *Registry) delete(ctx context.Context, w write, o metav1.DeleteOptions) (outcome, error) {
	var deleted strategy.Deletion
	out, err := r.retry(ctx, w, func(current *wire.Object) (decided decision, err error) {
		decided, deleted, err = r.prepareDelete(ctx, w, current, o)
		return decided, err
	})
	switch {
	case err != nil || deleted != strategy.DeleteMarked:
		return out, err
	case w.dryRun:
		out.removed = true
		return out, nil
	}
	return r.removeMarked(ctx, w, out.object, o.Preconditions)
}

// removeMarked does the second step of a deletion: it removes an object that the first one has
// marked. Errors: those of the first step, but not 404: who removed the marked object meanwhile
// did what was asked for. Upstream would also remove another object that has got the name by
// then; here it stays.
func (r *Registry) removeMarked(ctx context.Context, w write, marked *wire.Object, p *metav1.Preconditions) (outcome, error) {
	if p != nil && p.ResourceVersion != nil {
		rv := marked.ResourceVersion().String()
		p = &metav1.Preconditions{UID: p.UID, ResourceVersion: &rv}
	}
	out, err := r.retry(ctx, w, func(current *wire.Object) (decision, error) {
		if current == nil || current.UID() != marked.UID() {
			return decision{}, nil
		}
		if err := r.mayDelete(ctx, w, current, p); err != nil {
			return decision{}, err
		}
		return decision{remove: true}, nil
	})
	if err == nil && !out.removed {
		return outcome{object: marked, removed: true}, nil
	}
	return out, err
}

// prepareDelete decides what a DELETE does to the current object, for DeleteMarked what its first
// step does: the steps of a deletion.
func (r *Registry) prepareDelete(
	ctx context.Context, w write, current *wire.Object, o metav1.DeleteOptions,
) (decision, strategy.Deletion, error) {
	resource := w.target.Resource
	if current == nil {
		return decision{}, 0, wire.NotFound(resource.GR(), w.target.Name)
	}

	// Check, mutate, and validate.
	if err := r.mayDelete(ctx, w, current, o.Preconditions); err != nil {
		return decision{}, 0, err
	}

	// Finish.
	u, err := treeOf(resource.Readings.Of(current))
	if err != nil {
		return decision{}, 0, err
	}
	deleted, err := strategy.Delete(resource, u, o)
	if err != nil {
		return decision{}, 0, err
	}
	switch deleted {
	case strategy.DeleteNow:
		return decision{remove: true}, deleted, nil
	case strategy.DeleteLater, strategy.DeleteMarked:
		// Encode.
		value, err := encodeAsStored(resource, u)
		return decision{value: value, marks: true}, deleted, err
	case strategy.DeleteUnchanged:
	}
	return decision{}, deleted, nil
}

// mayDelete checks the preconditions of a deletion, and asks the plugins about it, which can change
// nothing. Like upstream it is called for each step of a deletion, since the object may be another
// one than at the first.
func (r *Registry) mayDelete(ctx context.Context, w write, current *wire.Object, p *metav1.Preconditions) error {
	if err := preconditions(w.target, current, p); err != nil {
		return err
	}
	if !w.review.Asks() {
		return nil
	}
	old, err := r.shownTree(ctx, w.target.Resource, current)
	if err != nil {
		return err
	}
	if _, err := w.review.Admit(ctx, nil, old); err != nil {
		return err
	}
	return w.review.Validate(ctx, nil, old)
}

// namespacePreconditions is preconditions with the texts of upstream's storage of namespaces, which deletes by itself.
func namespacePreconditions(t kinds.Target, current *wire.Object, p *metav1.Preconditions) error {
	gr, name := t.Resource.GR(), current.Key().Name
	if p.UID != nil && *p.UID != current.UID() {
		return wire.Conflict(gr, name, fmt.Sprintf(
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, current.UID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != current.ResourceVersion().String() {
		return wire.Conflict(gr, name, fmt.Sprintf(
			"Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v",
			*p.ResourceVersion, current.ResourceVersion()))
	}
	return nil
}

// preconditions compares uid and resourceVersion (apiserver rest.BeforeDelete, which
// names the kind where other conflicts name the resource).
func preconditions(t kinds.Target, current *wire.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if t.Resource.IsNamespace() {
		return namespacePreconditions(t, current, p)
	}
	kind := kinds.GroupResource{Group: t.Resource.Home().Group, Resource: t.Resource.Kind} // of the internal type
	if p.UID != nil && *p.UID != current.UID() {
		return wire.Conflict(kind, current.Key().Name, fmt.Sprintf(
			"the UID in the precondition (%s) does not match the UID in record (%s). "+
				"The object might have been deleted and then recreated",
			*p.UID, current.UID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != current.ResourceVersion().String() {
		return wire.Conflict(kind, current.Key().Name, fmt.Sprintf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
				"The object might have been modified",
			*p.ResourceVersion, current.ResourceVersion()))
	}
	return nil
}
