package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// updateScale sets the replicas from a body that is a Scale.
func (r *Registry) updateScale(ctx context.Context, w write, body []byte, v schema.FieldValidation) (kube.Written, error) {
	return r.setScale(ctx, w, func(*kube.Object) (*scale.Scale, []string, error) { return scale.Decode(body, v) })
}

// patchScale sets the replicas by a patch of the Scale.
func (r *Registry) patchScale(ctx context.Context, w write, change *patching) (kube.Written, error) {
	return r.setScale(ctx, w, func(current *kube.Object) (*scale.Scale, []string, error) {
		shown, err := scale.Of(w.target, current)
		if err != nil {
			return nil, nil, err
		}
		patched, _, err := change.patch.Apply(shown.JSON(), nil)
		if err != nil {
			return nil, nil, err
		}
		return scale.Decode(patched, change.validation)
	})
}

// setScale changes the replicas of an object to what wanted says.
func (r *Registry) setScale(ctx context.Context, w write, wanted func(*kube.Object) (*scale.Scale, []string, error)) (kube.Written, error) {
	t := w.target
	if t.Resource.Scale == nil {
		return kube.Written{}, kube.NotFound(t.Resource.GR(), t.Name)
	}
	var warnings []string
	main := w
	main.target.Subresource = ""
	out, err := r.update(ctx, main, func(current *kube.Object) (*unstructured.Unstructured, error) {
		if current == nil {
			return nil, kube.NotFound(t.Resource.GR(), t.Name)
		}
		s, warned, err := wanted(current)
		if err != nil {
			return nil, err
		}
		warnings = warned
		return s.Set(t, current)
	})
	if err != nil {
		return kube.Written{}, err
	}
	shown, err := scale.Of(t, out.Object)
	return kube.Written{Object: shown, Warnings: warnings}, err
}
