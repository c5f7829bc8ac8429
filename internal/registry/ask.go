package registry

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Ask asks plugins about what is sent to a subresource that stores nothing, such as a request for a token. They may
// change it. It returns their warnings, also beside an error.
func (r *Registry) Ask(
	ctx context.Context, t kinds.Target, sent *unstructured.Unstructured, o metav1.CreateOptions,
) (warnings []string, err error) {
	ctx, said := hear(ctx)
	review := admission.ReviewOf(r.plugins, admission.Request{
		Target: t, Operation: upstream.Create, Options: &o, DryRun: len(o.DryRun) > 0,
	})
	if _, err = review.Admit(ctx, sent, nil); err == nil {
		err = review.Validate(ctx, sent, nil)
	}
	return said.all(), err
}

// enter begins the creation of an object, as Gate.Enter. With Config.ProvisionNamespaces it makes the namespace first,
// if there is none.
func (r *Registry) enter(ctx context.Context, w write) (leave func(), err error) {
	leave, err = r.gate.Enter(ctx, w.target)
	if !r.provisions || w.dryRun || w.target.Caller == nil || !lacksNamespace(w.target, err) {
		return leave, err
	}
	namespaces, has := r.live.Load().Storage(kinds.Namespaces())
	if !has {
		return nil, err
	}
	own := kinds.Target{
		Resource: namespaces, Manager: "kube-apiserver",
		Caller: &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}},
	}
	named := &unstructured.Unstructured{}
	named.SetGroupVersionKind(namespaces.GVK())
	named.SetName(w.target.Namespace)
	body, err := named.MarshalJSON()
	if err != nil {
		return nil, wire.Internal(err)
	}
	if _, err := r.Create(ctx, own, body, metav1.CreateOptions{}); err != nil && !isAlreadyExists(err) {
		return nil, wire.Forbidden(w.target.Resource.GR(), w.target.Name, err.Error())
	}
	return r.gate.Enter(ctx, w.target)
}

// lacksNamespace reports whether an error says that the namespace of a target does not exist.
func lacksNamespace(t kinds.Target, err error) bool {
	e, is := errors.AsType[*wire.StatusError](err)
	return is && t.Namespace != "" && e.ErrStatus.Code == http.StatusNotFound && e.ErrStatus.Details != nil &&
		e.ErrStatus.Details.Kind == kinds.Namespaces().Resource && e.ErrStatus.Details.Name == t.Namespace
}
