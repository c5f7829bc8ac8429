package registry

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/registry/patch"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// Patch changes an object, its status or its scale by a JSON patch, a merge patch
// or (built-in kinds) a strategic merge patch. A resourceVersion in the patch is a
// condition; without one the patch is applied to whatever is there. Errors: 400,
// 404, 409, 413, 415 for other types of patches, 422 (server.md 5).
func (r *Registry) Patch(ctx context.Context, t schema.Target, p kube.Patch, o metav1.PatchOptions) (kube.Written, error) {
	if !slices.Contains(t.Resource.PatchTypes, string(p.Type)) {
		return kube.Written{}, kube.UnsupportedMediaType(t.Resource.PatchTypes)
	}
	if err := invalidOptions("PatchOptions", metavalidation.ValidatePatchOptions(&o, p.Type)); err != nil {
		return kube.Written{}, err
	}
	w, err := r.newSubject(t, o.DryRun)
	if err != nil {
		return kube.Written{}, err
	}
	change := &patching{resource: t.Resource, patch: p, validation: validation(o.FieldValidation)}
	if t.Subresource == "scale" {
		return r.patchScale(ctx, w, change)
	}
	if err := served(t); err != nil {
		return kube.Written{}, err
	}
	var warnings []string
	out, err := r.update(ctx, w, func(current *kube.Object) (*unstructured.Unstructured, error) {
		if current == nil {
			return nil, kube.NotFound(t.Resource.GR(), t.Name)
		}
		u, warned, err := change.apply(current.WithAPIVersion(t.Resource.APIVersion()))
		if err != nil {
			return nil, err
		}
		warnings = warned
		return u, matchName(t, u)
	})
	out.Warnings = warnings
	return out, err
}

// patching is one patch on its way to an object.
type patching struct {
	resource   *schema.Resource
	patch      kube.Patch
	validation schema.FieldValidation
}

// apply returns the patched object, and warnings about it.
func (p *patching) apply(current *kube.Object) (*unstructured.Unstructured, []string, error) {
	patched, problems, err := patch.Apply(current.JSON(), p.patch, p.resource.Type.StrategicMerge)
	if err != nil {
		return nil, nil, err
	}
	u, warnings, err := p.resource.Type.Decode(patched, p.validation)
	if err == nil && p.validation == schema.FieldsStrict && len(problems) > 0 {
		err = runtime.NewStrictDecodingError(problems)
	}
	if err != nil {
		return nil, nil, kube.Invalid(schema.GroupVersionKind{}.GroupKind(), "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(patched), err.Error()),
		})
	}
	if p.validation == schema.FieldsWarn {
		for _, problem := range problems {
			warnings = append(warnings, problem.Error())
		}
	}
	return u, warnings, nil
}
