package gc

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// handle does what is to be done about one object. Errors: *unknownKindError, 409 when it
// has changed meanwhile, and those of the verbs.
func (c *Collector) handle(ctx context.Context, v *vertex) error {
	l := c.graph.look(v)
	if l.tell {
		c.graph.tellDependents(v)
	}
	if l.gone || !l.placed {
		return nil
	}
	t, o, err := c.find(ctx, v, l)
	if o == nil || err != nil {
		return err
	}
	switch {
	case len(l.orphaned) > 0:
		return c.release(ctx, t, o, l.orphaned)
	case l.waits != waitsForNothing:
		return c.finish(ctx, v, l, item{t, o})
	case o.Deleting():
		return nil // when it is gone its dependents are handled
	}
	found, err := c.classify(ctx, t, o)
	if err != nil {
		return err
	}
	c.report(ctx, v, l, item{t, o}, found)
	switch {
	case found.never, len(found.solid)+len(found.dangling)+len(found.waiting) == 0:
		return nil
	case len(found.solid) > 0:
		// Also references to owners that wait: else they would wait for this object, which stays.
		return c.release(ctx, t, o, append(found.dangling, found.waiting...))
	case len(found.waiting) > 0 && l.parent:
		return c.delete(ctx, t, o, metav1.DeletePropagationForeground)
	}
	policy := metav1.DeletePropagationBackground
	switch finalizers := o.Finalizers(); {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	return c.delete(ctx, t, o, policy)
}

// item is an object and where it is.
type item struct {
	target kinds.Target
	object *wire.Object
}

// find returns the object of a vertex; nil if it is gone, which the graph knows or will
// know at once.
func (c *Collector) find(ctx context.Context, v *vertex, l view) (kinds.Target, *wire.Object, error) {
	resource, served := c.live.Load().Storage(l.gr)
	if !served {
		return kinds.Target{}, nil, nil
	}
	t := kinds.Target{Resource: resource, Namespace: l.key.Namespace, Name: l.key.Name, AsStored: true, Caller: asUpstream()}
	o, err := c.verbs.Get(ctx, t, "0")
	switch {
	case isReason(err, metav1.StatusReasonNotFound):
		return t, nil, nil
	case err != nil:
		return t, nil, err
	case o.UID() != v.uid:
		return t, nil, nil
	}
	return t, o, nil
}

// finish removes the finalizer of an object that waits, when it has nothing to wait for.
func (c *Collector) finish(ctx context.Context, v *vertex, l view, i item) error {
	if l.free {
		if err := c.unknown(i.object.Key().Namespace); err != nil {
			return fmt.Errorf("finish the deletion of %s %s, which may have dependents: %w",
				i.target.Resource.Kind, i.object.Key(), err)
		}
		if !c.graph.look(v).free {
			return nil // what nothing was known of when l was seen is a dependent, and known by now
		}
		finalizers := i.object.Finalizers()
		left := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == l.waits.finalizer() })
		if len(left) == len(finalizers) {
			return nil
		}
		return c.patch(ctx, i, map[string]any{"finalizers": left})
	}
	if l.waits == waitsForDeletion && c.graph.inCircle(v) {
		return c.unblock(ctx, i)
	}
	return nil
}

// unblock lets the owners of an object be deleted before it, so that a circle of objects
// that wait for each other ends.
func (c *Collector) unblock(ctx context.Context, i item) error {
	refs := i.object.OwnerReferences()
	for n := range refs {
		if refs[n].BlockOwnerDeletion != nil {
			refs[n].BlockOwnerDeletion = new(false)
		}
	}
	return c.patch(ctx, i, map[string]any{"ownerReferences": refs})
}

// release removes the references to some owners.
func (c *Collector) release(ctx context.Context, t kinds.Target, o *wire.Object, owners []types.UID) error {
	refs := o.OwnerReferences()
	left := slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})
	if len(left) == len(refs) {
		return nil
	}
	return c.patch(ctx, item{t, o}, map[string]any{"ownerReferences": left})
}

// asUpstream is the user of upstream's collector, as admission plugins see it.
func asUpstream() user.Info {
	return &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:generic-garbage-collector",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
	}
}
