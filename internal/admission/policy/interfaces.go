package policy

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/kinds"
)

// typesOf returns how the fields of a kind merge.
func (m *mutation) typesOf(by match.Matched) (managedfields.TypeConverter, error) {
	r, served := m.plugin.live.Load().Lookup(by.Resource)
	if !served {
		return nil, apierrors.NewServiceUnavailable(
			"Resource kind " + by.Kind.String() +
				" not found. There can be a delay between when CustomResourceDefinitions are created and when " +
				"they are available.")
	}
	if r.GVK() != by.Kind {
		return managedfields.NewDeducedTypeConverter(), nil // the body of a subresource
	}
	return m.plugin.cluster.Types(r)
}

// interfaces is what upstream's JSON patches need to encode and decode an object.
type interfaces struct{ admission.ObjectInterfaces }

// GetObjectCreater returns what makes objects.
func (interfaces) GetObjectCreater() runtime.ObjectCreater { return untyped{} }

// GetObjectTyper returns what knows the kinds of objects.
func (interfaces) GetObjectTyper() runtime.ObjectTyper { return untyped{} }

// untyped knows objects as trees.
type untyped struct{}

// New implements runtime.ObjectCreater.
func (untyped) New(kind kinds.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, nil
}

// ObjectKinds implements runtime.ObjectTyper.
func (untyped) ObjectKinds(o runtime.Object) ([]kinds.GroupVersionKind, bool, error) {
	if _, is := o.(*unstructured.Unstructured); !is {
		return nil, false, errors.New("not an unstructured object")
	}
	return []kinds.GroupVersionKind{o.GetObjectKind().GroupVersionKind()}, false, nil
}

// Recognizes implements runtime.ObjectTyper.
func (untyped) Recognizes(kinds.GroupVersionKind) bool { return true }
