package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// charged charges quotas for a write that is otherwise ready to be done: u is its new object, old the stored one. If it
// is refused, the decision is released.
func (r *Registry) charged(ctx context.Context, w write, d decision, u, old *unstructured.Unstructured) (decision, error) {
	if r.charger == nil || w.target.Caller == nil || w.options == nil || !r.charger.Concerns(w.target, w.op) {
		return d, nil
	}
	asked := admission.Request{Target: w.target, Operation: w.op, Options: w.options, DryRun: w.dryRun}
	end, err := r.charger.Charge(ctx, asked.Attributes(u, old))
	if err != nil {
		d.release(admission.Refused)
		return decision{}, err
	}
	if end != nil {
		lasting := context.WithoutCancel(ctx) // a client that leaves takes nothing with it
		d.became = append(d.became, func(o admission.Outcome) { end(lasting, o) })
	}
	return d, nil
}

// ChangeStatus changes the status of an object by do, as the server itself: nobody is asked, and manager manages what
// changes. Do is called again after a conflict. It writes nothing if do changes nothing, and returns the object when
// every reader can see it. Errors: 404, 409 if others are always faster, those of do, and of an update.
func (r *Registry) ChangeStatus(
	ctx context.Context, gr kinds.GroupResource, key wire.Key, manager string,
	do func(u *unstructured.Unstructured, current *wire.Object) error,
) (*wire.Object, error) {
	resource, found := r.live.Load().Storage(gr)
	if !found {
		return nil, wire.NotFound(gr, key.Name)
	}
	t := kinds.Target{Resource: resource, Namespace: key.Namespace, Name: key.Name, Subresource: "status"}
	w, err := r.newWrite(t, nil)
	if err != nil {
		return nil, err
	}
	out, err := r.update(ctx, w.managedBy(manager), func(current *wire.Object) (*unstructured.Unstructured, error) {
		u, err := r.shownTree(ctx, resource, current)
		if err != nil {
			return nil, err
		}
		return u, do(u, current)
	})
	return out.Object, err
}

// Latest blocks until readers see everything of a resource that was acknowledged before, by whichever server. Errors:
// the store cannot be asked, ctx's cause.
func (r *Registry) Latest(ctx context.Context, gr kinds.GroupResource, namespace string) error {
	cached := r.caches.Lookup(gr)
	if cached == nil {
		return nil
	}
	_, err := cached.FreshIn(ctx, namespace)
	return err
}
