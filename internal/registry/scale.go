package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gapless-io/gapless/internal/registry/patch"
	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// updateScale sets the replicas from a body that is a Scale.
func (r *Registry) updateScale(ctx context.Context, w subject, body []byte, v schema.FieldValidation) (kube.Written, error) {
	return r.setScale(ctx, w, func(*kube.Object) (*scale.Scale, []string, error) { return scale.Decode(body, v) })
}

// patchScale sets the replicas by a patch of the Scale. It has no lists, so that a
// strategic merge patch of it is a merge patch.
func (r *Registry) patchScale(ctx context.Context, w subject, change *patching) (kube.Written, error) {
	return r.setScale(ctx, w, func(current *kube.Object) (*scale.Scale, []string, error) {
		shown, err := scale.Of(w.target, current)
		if err != nil {
			return nil, nil, err
		}
		p := change.patch
		if p.Type == types.StrategicMergePatchType {
			p.Type = types.MergePatchType
		}
		patched, _, err := patch.Apply(shown.JSON(), p, nil)
		if err != nil {
			return nil, nil, err
		}
		return scale.Decode(patched, change.validation)
	})
}

// setScale changes the replicas of an object to what wanted says.
func (r *Registry) setScale(ctx context.Context, w subject, wanted func(*kube.Object) (*scale.Scale, []string, error)) (kube.Written, error) {
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
