package registry

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/admit"
	"github.com/gapless-io/gapless/internal/registry/eviction"
	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/wire"
)

// createSubresource does a POST to a subresource: binds a pod, or evicts one.
func (r *Registry) createSubresource(ctx context.Context, t kinds.Target, body []byte, o metav1.CreateOptions) (wire.Written, error) {
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
	ours := func() error {
		if sent.GetName() != t.Name || t.Name == "" {
			return wire.BadRequest("name in URL does not match name in %s object", sub.Kind.Kind)
		}
		return metadata.MatchNamespace(t, sent)
	}
	if err := ours(); err != nil {
		return wire.Written{}, err
	}
	review := admit.Begin(r.plugin, admit.Request{Target: t, Operation: admission.Create, Options: &o, DryRun: len(o.DryRun) > 0})
	if _, err = review.Admit(ctx, sent, nil); err == nil {
		err = ours() // a plugin may have changed it
	}
	if err == nil {
		err = review.Validate(ctx, sent, nil)
	}
	switch {
	case err != nil:
		return wire.Written{}, err
	case sub.Apply == nil:
		err = eviction.Evict(ctx, evictionVerbs{r}, eviction.Request{Pod: t, Eviction: sent, DryRun: o.DryRun})
	default:
		err = r.modify(ctx, t, o.DryRun, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return sent.DeepCopy(), nil })
	}
	if err != nil {
		return wire.Written{}, err
	}
	done := &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusCreated,
	}
	return wire.Written{Status: done, Created: true}, nil
}

// modify updates the object of a target by wanted.
func (r *Registry) modify(ctx context.Context, t kinds.Target, dryRun []string, wanted func(*unstructured.Unstructured) (*unstructured.Unstructured, error)) error {
	w, err := r.newWrite(t, dryRun)
	if err != nil {
		return err
	}
	_, err = r.update(ctx, w, r.changed(ctx, t, func(u *unstructured.Unstructured, _ *wire.Object) (*unstructured.Unstructured, error) {
		return wanted(u)
	}))
	return err
}

// changed makes of a change of an object's tree what update calls. Errors: 404 without the object.
func (r *Registry) changed(ctx context.Context, t kinds.Target, change func(u *unstructured.Unstructured, current *wire.Object) (*unstructured.Unstructured, error)) revise {
	return func(current *wire.Object) (*unstructured.Unstructured, error) {
		if current == nil {
			return nil, wire.NotFound(t.Resource.GR(), t.Name)
		}
		shown, err := r.Show(ctx, t.Resource, current)
		if err != nil {
			return nil, err
		}
		u, err := treeOf(shown)
		if err != nil {
			return nil, err
		}
		return change(u, current)
	}
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
func (v evictionVerbs) Change(ctx context.Context, t kinds.Target, p *metav1.Preconditions, change func(u *unstructured.Unstructured) error) (*wire.Object, error) {
	t.Caller = nil
	w, err := v.newWrite(t, nil)
	if err != nil {
		return nil, err
	}
	out, err := v.update(ctx, w, v.changed(ctx, t, func(u *unstructured.Unstructured, current *wire.Object) (*unstructured.Unstructured, error) {
		if err := preconditions(t, current, p); err != nil {
			return nil, err
		}
		return u, change(u)
	}))
	return out.Object, err
}
