package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
)

// hook is what the writes of one resource do besides what all writes do, because its objects depend
// on each other.
type hook interface {
	// Check returns what is wrong with a new object besides the rules of its kind.
	Check(u *unstructured.Unstructured) field.ErrorList
	// Settle fills in what depends on the other objects of the resource. None of them is settled
	// until done is called, when u is stored, or given up.
	Settle(ctx context.Context, u *unstructured.Unstructured) (done func(), err error)
}

// encodeSettled settles an object that is otherwise ready to be stored, if its resource has a hook,
// and encodes it; managed is as encode takes it.
func (r *Registry) encodeSettled(
	ctx context.Context, resource *kinds.Resource, u *unstructured.Unstructured, managed []byte,
) (d decision, err error) {
	if h := r.hooks[resource.GR()]; h != nil {
		if d.end, err = h.Settle(ctx, u); err != nil {
			return decision{}, err
		}
	}
	held := d
	defer func() { held.release(admission.Refused) }() // also after a panic, which ends only this request
	if d.value, err = r.encode(ctx, resource, u, managed); err != nil {
		return decision{}, err
	}
	held = decision{} // the caller releases it
	return d, nil
}
