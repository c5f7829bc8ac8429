package registry

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/registry/strategy"
	"github.com/gapless-io/gapless/internal/wire"
)

// lifecycleVerbs implements lifecycle.Verbs.
type lifecycleVerbs struct{ *Registry }

// CreateObject implements lifecycle.Verbs.
func (v lifecycleVerbs) CreateObject(
	ctx context.Context, resource *kinds.Resource, u *unstructured.Unstructured,
) error {
	w, err := v.newWrite(kinds.Target{Resource: resource, Namespace: u.GetNamespace()}, nil)
	if err != nil {
		return err
	}
	if _, err := v.create(ctx, w.managedBy("gapless"), u); err != nil && !isAlreadyExists(err) {
		return err
	}
	return nil
}

// DeleteObjects implements lifecycle.Verbs.
func (v lifecycleVerbs) DeleteObjects(
	ctx context.Context, resource *kinds.Resource, items []*wire.Object, options func(*wire.Object) metav1.DeleteOptions,
) (left int, err error) {
	w, err := v.newWrite(kinds.Target{Resource: resource, Caller: namespaceController()}, nil)
	if err != nil {
		return 0, err
	}
	w = v.asked(w, admission.Delete, &metav1.DeleteOptions{})
	outcomes, err := v.deleteEach(ctx, w, items, options)
	for _, out := range outcomes {
		if out.object != nil && !out.removed {
			left++
		}
	}
	return left, err
}

// namespaceController is the user of upstream's controller that deletes the content of namespaces.
func namespaceController() user.Info {
	return &user.DefaultInfo{
		Name:   "system:serviceaccount:kube-system:namespace-controller",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", user.AllAuthenticated},
	}
}

// Finalize implements lifecycle.Verbs.
func (v lifecycleVerbs) Finalize(
	ctx context.Context, t kinds.Target, uid types.UID, release func(*unstructured.Unstructured),
) error {
	w, err := v.newWrite(t, nil)
	if err != nil {
		return err
	}
	_, err = v.retry(ctx, w, func(current *wire.Object) (decision, error) {
		if current == nil || current.UID() != uid || !current.Deleting() {
			return decision{}, nil
		}
		u, err := treeOf(t.Resource.Readings.Of(current))
		if err != nil {
			return decision{}, err
		}
		release(u)
		if strategy.Finished(t.Resource, u) {
			return decision{remove: true}, nil
		}
		value, err := encodeAsStored(t.Resource, u)
		if err != nil || string(value) == string(current.Value()) {
			return decision{}, err
		}
		return decision{value: value}, nil
	})
	return err
}

// Refresh implements lifecycle.Verbs.
func (v lifecycleVerbs) Refresh(ctx context.Context, t kinds.Target) error {
	w, err := v.newWrite(t, nil)
	if err != nil {
		return err
	}
	_, err = v.update(ctx, w, treeOf)
	if e, is := errors.AsType[*wire.StatusError](err); is && e.ErrStatus.Code == http.StatusNotFound {
		return nil
	}
	return err
}
