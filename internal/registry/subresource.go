package registry

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/eviction"
	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/wire"
)

// createSubresource does a POST to a subresource: binds a pod, or evicts one. What was sent takes
// the steps of a creation that it has, and then changes its object, about which no plugin is asked.
func (r *Registry) createSubresource(
	ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions,
) (wire.Written, error) {
	through := t.Resource.Through
	if through != nil {
		t.Resource, t.Subresource = through.Resource, through.Subresource
	}
	sub := t.Resource.Subresource(t.Subresource)
	if sub == nil || sub.Body == nil {
		return wire.Written{}, wire.NotFound(t.Resource.GR(), t.Name)
	}
	sent, warnings, err := sub.Body.Decode(body, validation(o.FieldValidation))
	if err != nil {
		return wire.Written{}, err
	}
	if through != nil {
		t.Name = sent.GetName()
	}
	warn(ctx, warnings)
	if err := matchSent(t, sub, sent); err != nil {
		return wire.Written{}, err
	}
	review := admission.ReviewOf(r.plugins, admission.Request{
		Target: t, Operation: upstream.Create, Options: &o, DryRun: len(o.DryRun) > 0,
	})

	// Mutate.
	if _, err := review.Admit(ctx, sent, nil); err != nil {
		return wire.Written{}, err
	}

	// Check.
	if err := matchSent(t, sub, sent); err != nil { // a plugin may have changed it
		return wire.Written{}, err
	}
	if sub.Apply == nil {
		if err := eviction.Check(t, sent); err != nil {
			return wire.Written{}, err
		}
	}

	// Validate.
	if err := review.Validate(ctx, sent, nil); err != nil {
		return wire.Written{}, err
	}

	if sub.Apply == nil {
		err = eviction.Evict(ctx, evictionVerbs{r}, eviction.Request{Pod: t, Eviction: sent, DryRun: o.DryRun})
	} else {
		do := func(u *unstructured.Unstructured, _ *wire.Object) (*unstructured.Unstructured, error) {
			one := sent.DeepCopy()
			strategy.TakeManaged(one, u) // what is sent is of another kind, and has none of the object's
			return one, nil
		}
		_, err = r.change(ctx, t, o.DryRun, do)
	}
	if err != nil {
		return wire.Written{}, err
	}
	done := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	}
	return wire.Written{Status: done, Created: true}, nil
}

// matchSent refuses the body of a subresource that is for another object than the request.
func matchSent(t kinds.Target, sub *kinds.Subresource, sent *unstructured.Unstructured) error {
	if sent.GetName() != t.Name || t.Name == "" {
		return wire.BadRequest("name in URL does not match name in %s object", sub.Kind.Kind)
	}
	return metadata.MatchNamespace(t, sent)
}

// change updates the object of a target to what do makes of it, in the version of the target. No
// plugin is asked. Errors: 404 without the object, those of do, and of update.
func (r *Registry) change(
	ctx context.Context, t kinds.Target, dryRun []string,
	do func(u *unstructured.Unstructured, current *wire.Object) (*unstructured.Unstructured, error),
) (*wire.Object, error) {
	w, err := r.newWrite(t, dryRun)
	if err != nil {
		return nil, err
	}
	out, err := r.update(ctx, w, func(current *wire.Object) (*unstructured.Unstructured, error) {
		u, err := r.shownTree(ctx, t.Resource, current)
		if err != nil {
			return nil, err
		}
		return do(u, current)
	})
	return out.Object, err
}

// evictionVerbs implements eviction.Verbs.
type evictionVerbs struct{ *Registry }

// Budgets implements eviction.Verbs.
func (v evictionVerbs) Budgets() *kinds.Resource {
	budgets, _ := v.live.Load().Storage(kinds.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"})
	return budgets
}

// Delete implements eviction.Verbs. Plugins were asked about the eviction.
func (v evictionVerbs) Delete(ctx context.Context, t kinds.Target, o metav1.DeleteOptions) (wire.Written, error) {
	t.Caller = nil
	return v.Registry.Delete(ctx, t, o)
}

// Change implements eviction.Verbs.
func (v evictionVerbs) Change(
	ctx context.Context, t kinds.Target, p *metav1.Preconditions, change func(u *unstructured.Unstructured) error,
) (*wire.Object, error) {
	t.Caller = nil
	return v.change(ctx, t, nil, func(u *unstructured.Unstructured, current *wire.Object) (*unstructured.Unstructured, error) {
		if err := preconditions(t, current, p); err != nil {
			return nil, err
		}
		return u, change(u)
	})
}
