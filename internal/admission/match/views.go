package match

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/kinds"
)

// Converter converts objects between the versions of a resource.
type Converter interface {
	// Convert returns content of one version in another one. The result may share parts with it.
	Convert(ctx context.Context, v kinds.Versions, content map[string]any) (map[string]any, error)
}

// Views are the objects of one request in the versions by which it matches. They are used by
// one goroutine.
type Views struct {
	request   admission.Attributes
	live      *kinds.Live
	converter Converter
	made      map[kinds.GroupVersionKind]*admission.VersionedAttributes
}

// NewViews returns the views of a request. It converts nothing.
func NewViews(live *kinds.Live, converter Converter, request admission.Attributes) *Views {
	return &Views{request: request, live: live, converter: converter}
}

// Own is the resource and the kind of the request itself.
func (v *Views) Own() Matched {
	return Matched{Resource: v.request.GetResource(), Kind: v.request.GetKind()}
}

// Of returns the request with its objects as a resource has them.
func (v *Views) Of(ctx context.Context, by Matched) (*admission.VersionedAttributes, error) {
	if view := v.made[by.Kind]; view != nil {
		return view, nil
	}
	view := &admission.VersionedAttributes{Attributes: v.request, VersionedKind: by.Kind}
	for _, of := range []struct {
		object runtime.Object
		to     *admission.LazyObject
	}{{v.request.GetObject(), &view.VersionedObject}, {v.request.GetOldObject(), &view.VersionedOldObject}} {
		u, is := of.object.(*unstructured.Unstructured)
		if !is {
			continue
		}
		converted, err := v.Convert(ctx, u, v.Own(), by)
		if err != nil {
			return nil, err
		}
		of.to.Set(converted)
	}
	if v.made == nil {
		v.made = map[kinds.GroupVersionKind]*admission.VersionedAttributes{}
	}
	v.made[by.Kind] = view
	return view, nil
}

// Forget drops what was made of an object that has changed.
func (v *Views) Forget() { clear(v.made) }

// Convert returns an object of the request, or a changed one, as another resource has it. The
// bodies of subresources other than status are of one kind for all versions.
func (v *Views) Convert(ctx context.Context, u *unstructured.Unstructured, from, to Matched) (*unstructured.Unstructured, error) {
	if from.Kind == to.Kind {
		return u, nil
	}
	catalog := v.live.Load()
	versions := kinds.Versions{}
	for _, of := range []struct {
		by Matched
		in **kinds.Resource
	}{{from, &versions.From}, {to, &versions.To}} {
		found, served := catalog.Lookup(of.by.Resource)
		if !served || found.GVK() != of.by.Kind {
			return nil, fmt.Errorf("unable to convert to %v: unknown kind", of.by.Resource)
		}
		*of.in = found
	}
	content, err := v.converter.Convert(ctx, versions, u.Object)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}
