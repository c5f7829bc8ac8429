package scale

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/wire"
)

// Reviewed returns the review of a write of the scale, for which plugins get Scales.
func Reviewed(r *admission.Review) *admission.Review {
	return r.As(gvk(), func(u *unstructured.Unstructured) error {
		s, err := scaleOf(u)
		if err != nil {
			return err
		}
		again, err := s.tree()
		if err == nil {
			u.Object = again.Object
		}
		return err
	})
}

// Review asks the plugins about s, which replaces old, and returns it as they have changed it.
func (s *Scale) Review(ctx context.Context, r *admission.Review, old *unstructured.Unstructured) (*Scale, error) {
	if !r.Asks() {
		return s, nil
	}
	u, err := s.tree()
	if err != nil {
		return nil, err
	}
	if _, err := r.Admit(ctx, u, old); err != nil {
		return nil, err
	}
	if err := r.Validate(ctx, u, old); err != nil {
		return nil, err
	}
	return scaleOf(u)
}

func (s *Scale) tree() (*unstructured.Unstructured, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, wire.Internal(err)
	}
	content, err := jsontree.Decode(text)
	if err != nil {
		return nil, wire.Internal(err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

func scaleOf(u *unstructured.Unstructured) (*Scale, error) {
	text, err := json.Marshal(u.Object)
	if err != nil {
		return nil, wire.BadRequest("%v", err)
	}
	s, _, err := Decode(text, kinds.FieldsIgnore)
	return s, err
}
