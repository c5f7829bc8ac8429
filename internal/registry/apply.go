package registry

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/jsontree"
	"github.com/gapless-io/gapless/internal/registry/fieldmanager"
	"github.com/gapless-io/gapless/internal/registry/metadata"
	"github.com/gapless-io/gapless/internal/wire"
)

// apply applies a configuration to an object, its status or its scale. It creates a missing
// object.
func (r *Registry) apply(ctx context.Context, w write, body []byte, o metav1.PatchOptions) (wire.Written, error) {
	t := w.target
	sent, warnings, err := fieldmanager.Read(body, validation(o.FieldValidation))
	if err != nil {
		return wire.Written{}, err
	}
	warn(ctx, warnings)
	config := fieldmanager.Configuration{Object: sent, Manager: o.FieldManager, Force: o.Force != nil && *o.Force}
	if t.Subresource == "scale" {
		return r.applyScale(ctx, w, config)
	}
	if err := served(t); err != nil {
		return wire.Written{}, err
	}
	w.creates = t.Subresource == ""
	return r.update(ctx, w, func(current *wire.Object) (*unstructured.Unstructured, error) {
		if current == nil {
			return r.applied(t, nil, config)
		}
		old, err := r.shownTree(ctx, t.Resource, current)
		if err != nil {
			return nil, err
		}
		return r.applied(t, old, config)
	})
}

// applied returns what applying a configuration makes of old, or of no object. Who manages its
// fields is in it.
func (r *Registry) applied(
	t kinds.Target, old *unstructured.Unstructured, config fieldmanager.Configuration,
) (*unstructured.Unstructured, error) {
	merged, err := r.fields.Apply(t, old, config)
	if err != nil {
		return nil, err
	}
	u, err := decodeApplied(t, merged)
	if err != nil {
		return nil, err
	}
	if uid := u.GetUID(); old == nil && uid != "" {
		return nil, wire.Conflict(t.Resource.GR(), t.Name, fmt.Sprintf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	return u, nil
}

// decodeApplied brings an object, which an applied configuration was merged into, into the
// form that its kind has.
func decodeApplied(t kinds.Target, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := wire.Canonical(u.Object)
	if err != nil {
		return nil, wire.BadRequest("%v", err)
	}
	decoded, _, err := t.Resource.Type.Decode(text, kinds.FieldsApplied)
	if err != nil {
		return nil, err
	}
	if rv := u.GetResourceVersion(); rv != "" {
		decoded.SetResourceVersion(rv) // which the canonical form does not have
	}
	if err := metadata.MatchNamespace(t, decoded); err != nil {
		return nil, err
	}
	return decoded, metadata.MatchName(t, decoded)
}

// keepTimes lets an update that changes nothing but the times in managedFields change
// nothing, as upstream does (apiserver fieldmanager.IgnoreManagedFieldsTimestampsTransformer).
func keepTimes(u, old *unstructured.Unstructured) {
	now, before := metadataOf(u), metadataOf(old)
	if !fieldmanager.OnlyTimes(now["managedFields"], before["managedFields"]) {
		return
	}
	times := now["managedFields"]
	now["managedFields"] = before["managedFields"]
	if !jsontree.Equal(u.Object, old.Object) {
		now["managedFields"] = times
	}
}

// Fields returns the field managers, which know how the fields of each kind merge.
func (r *Registry) Fields() *fieldmanager.Managers { return r.fields }
