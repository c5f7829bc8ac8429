package policy

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	admissionauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/wire"
)

// request is what the policies see of one write.
type request struct {
	admission.Attributes
	ctx    context.Context //nolint:containedctx // a request is one call
	plugin *Plugin
	authz  authorizer.UnconditionalAuthorizer // see authorizer

	views     *match.Views
	namespace *corev1.Namespace // read when it is first needed
}

// newRequest returns the request of attributes; its context is set by who evaluates it.
func (p *Plugin) newRequest(a admission.Attributes) *request {
	a = whole{a}
	return &request{Attributes: a, plugin: p, views: match.NewViews(p.live, p.cluster, a)}
}

// authorizer returns the authorizer of the request's expressions, which asks about the same
// only once.
func (r *request) authorizer() authorizer.UnconditionalAuthorizer {
	if r.authz == nil {
		r.authz = admissionauthorizer.NewCachingAuthorizer(r.plugin.authz)
	}
	return r.authz
}

// whole are attributes as upstream has them: there is always a user.
type whole struct{ admission.Attributes }

// GetUserInfo returns the caller; it is the server itself where none is given.
func (w whole) GetUserInfo() user.Info {
	if caller := w.Attributes.GetUserInfo(); caller != nil {
		return caller
	}
	return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}

// versioned returns the objects of the request in a version.
func (r *request) versioned(by match.Matched) (*admission.VersionedAttributes, error) {
	return r.views.Of(r.ctx, by)
}

// readNamespace reads the namespace of the object; there is none of cluster-scoped ones, and
// of namespaces themselves. Errors: 404.
func (r *request) readNamespace() error {
	name := r.GetNamespace()
	if kind := r.GetKind(); kind.Group == "" && kind.Version == "v1" && kind.Kind == "Namespace" {
		name = ""
	}
	if r.namespace != nil || name == "" {
		return nil
	}
	o := r.plugin.cluster.Find(match.Namespaces, wire.Key{Name: name})
	if o == nil {
		return apierrors.NewNotFound(match.Namespaces, name)
	}
	var namespace corev1.Namespace
	if err := json.Unmarshal(o.JSON(), &namespace); err != nil {
		return fmt.Errorf("read the namespace %s: %w", name, err)
	}
	r.namespace = &namespace
	return nil
}
