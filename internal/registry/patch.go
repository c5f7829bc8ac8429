package registry

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/patch"
	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/tracing"
	"github.com/gapless-io/gapless/internal/wire"
)

// Patch changes an object, its status or its scale by a JSON patch, a merge patch
// or (built-in kinds) a strategic merge patch, or applies a configuration to it, which
// creates it if there is none (server-side apply). A resourceVersion in the patch is a
// condition; without one the patch is applied to the current object. Errors: 400,
// 404, 409, 413, 415 for other types of patches, 422.
func (r *Registry) Patch(
	ctx context.Context, t kinds.Target, p wire.Patch, o metav1.PatchOptions,
) (out wire.Written, err error) {
	ctx, span := tracing.Start(ctx, "Patch")
	defer func() { span.End(err) }()
	ctx, said := hear(ctx)
	defer func() { out.Warnings = said.all() }()
	if !slices.Contains(t.Resource.PatchTypes, string(p.Type)) {
		return wire.Written{}, wire.UnsupportedMediaType(t.Resource.PatchTypes)
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(&o, p.Type)); err != nil {
		return wire.Written{}, err
	}
	w, err := r.newWrite(t, o.DryRun)
	if err != nil {
		return wire.Written{}, err
	}
	w = r.asked(w, admission.Update, updateOptions(&o))
	if t.Subresource == "scale" && p.Type == types.StrategicMergePatchType {
		p.Type = types.MergePatchType // a Scale has no lists, so that they are the same
	}
	if p.Type == types.ApplyYAMLPatchType {
		return r.apply(ctx, w, p.Body, o)
	}
	change := &patch.Change{Resource: t.Resource, Patch: patch.New(p), Validation: validation(o.FieldValidation)}
	if t.Subresource == "scale" {
		return r.patchScale(ctx, w, change, o.FieldManager)
	}
	if err := served(t); err != nil {
		return wire.Written{}, err
	}
	return r.update(ctx, w.managedBy(o.FieldManager), func(current *wire.Object) (*unstructured.Unstructured, error) {
		shown, err := r.Show(ctx, t.Resource, current)
		if err != nil {
			return nil, err
		}
		u, warnings, err := change.Apply(shown)
		if err != nil {
			return nil, err
		}
		warn(ctx, warnings)
		return u, metadata.MatchName(t, u)
	})
}
