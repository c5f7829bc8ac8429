package registry

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/patch"
	"github.com/gapless-io/gapless/internal/registry/fieldmanager"
	"github.com/gapless-io/gapless/internal/registry/scale"
	"github.com/gapless-io/gapless/internal/wire"
)

// updateScale sets the replicas from a body that is a Scale.
func (r *Registry) updateScale(
	ctx context.Context, w write, body []byte, v kinds.FieldValidation, manager string,
) (wire.Written, error) {
	sent, _, err := scale.Decode(body, v)
	if err != nil {
		return wire.Written{}, err
	}
	if err := sent.Match(w.target); err != nil { // before there is a look at the object
		return wire.Written{}, err
	}
	return r.setScale(ctx, w, func(now *scaled) (*scale.Scale, []string, error) {
		s, warnings, err := scale.Decode(body, v)
		if err != nil {
			return nil, nil, err
		}
		return s, warnings, r.trackScale(now, s, manager)
	})
}

// patchScale sets the replicas by a patch of the Scale.
func (r *Registry) patchScale(
	ctx context.Context, w write, change *patch.Change, manager string,
) (wire.Written, error) {
	return r.setScale(ctx, w, func(now *scaled) (*scale.Scale, []string, error) {
		patched, _, err := change.Patch.Apply(now.shown.JSON(), nil)
		if err != nil {
			return nil, nil, err
		}
		s, warnings, err := scale.Decode(patched, change.Validation)
		if err != nil {
			return nil, nil, err
		}
		return s, warnings, r.trackScale(now, s, manager)
	})
}

// applyScale sets the replicas by a configuration of the Scale.
func (r *Registry) applyScale(ctx context.Context, w write, config fieldmanager.Configuration) (wire.Written, error) {
	return r.setScale(ctx, w, func(now *scaled) (*scale.Scale, []string, error) {
		applied, err := r.fields.ApplyScale(now.Scaled, config)
		if err != nil {
			return nil, nil, err
		}
		text, err := wire.Canonical(applied.Object)
		if err != nil {
			return nil, nil, wire.BadRequest("%v", err)
		}
		s, warnings, err := scale.Decode(text, kinds.FieldsIgnore)
		if err == nil {
			s.ResourceVersion = applied.GetResourceVersion() // which the canonical form does not have
		}
		return s, warnings, err
	})
}

// scaled is an object and its Scale.
type scaled struct {
	fieldmanager.Scaled
	shown  *wire.Object // the Scale as clients see it, without managedFields, as upstream
	scaled *wire.Object // the object, in the version of the request
}

// scaledOf returns the Scale of an object. Errors: those of scale.Of.
func (r *Registry) scaledOf(ctx context.Context, t kinds.Target, o *wire.Object, missing int64) (*scaled, error) {
	o, err := r.Show(ctx, t.Resource, o)
	if err != nil {
		return nil, err
	}
	shown, err := scale.Of(t, o, missing)
	if err != nil {
		return nil, err
	}
	now := &scaled{Scaled: fieldmanager.Scaled{Target: t}, shown: shown, scaled: o}
	if now.Object, err = treeOf(o); err != nil {
		return nil, err
	}
	if now.Scale, err = treeOf(shown); err != nil {
		return nil, err
	}
	return now, r.fields.ShowScale(now.Scaled)
}

// trackScale records in an object that manager sets its replicas to those of s.
func (r *Registry) trackScale(now *scaled, s *scale.Scale, manager string) error {
	next := now.Scale.DeepCopy()
	if s.Spec.Replicas == 0 { // upstream's type leaves 0 out: nobody manages it then
		unstructured.RemoveNestedField(next.Object, "spec", "replicas")
	} else if err := unstructured.SetNestedField(next.Object, int64(s.Spec.Replicas), "spec", "replicas"); err != nil {
		return wire.Internal(err)
	}
	return r.fields.UpdateScale(now.Scaled, next, manager)
}

// setScale changes the replicas of an object to what wanted says. Plugins are asked about the Scale;
// what becomes of the object is an update without them.
func (r *Registry) setScale(
	ctx context.Context, w write, wanted func(*scaled) (*scale.Scale, []string, error),
) (wire.Written, error) {
	t := w.target
	if t.Resource.Scale == nil {
		return wire.Written{}, wire.NotFound(t.Resource.GR(), t.Name)
	}
	main, review := w, scale.Reviewed(w.review)
	main.target.Subresource, main.review = "", nil
	main.waits = review.Waits()
	out, err := r.update(ctx, main, func(current *wire.Object) (*unstructured.Unstructured, error) {
		now, err := r.scaledOf(ctx, t, current, scale.Unset)
		if err != nil {
			return nil, err
		}
		s, warnings, err := wanted(now)
		if err != nil {
			return nil, err
		}
		warn(ctx, warnings)
		if s, err = s.Review(ctx, review, now.Scale); err != nil {
			return nil, err
		}
		u, err := s.Set(t, now.scaled)
		if err != nil {
			return nil, err
		}
		u.SetManagedFields(now.Object.GetManagedFields())
		return u, nil
	})
	if err != nil {
		return wire.Written{}, err
	}
	now, err := r.scaledOf(ctx, t, out.Object, 0)
	if err != nil {
		return wire.Written{}, err
	}
	return wire.Written{Object: now.shown}, nil
}
