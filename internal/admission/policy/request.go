package policy

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	admissionauthorizer "k8s.io/apiserver/pkg/admission/plugin/authorizer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gapless-io/gapless/internal/admission/match"
	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// request is what the policies see of one write.
type request struct {
	admission.Attributes
	ctx    context.Context //nolint:containedctx // a request is one call
	plugin *Plugin
	authz  authorizer.UnconditionalAuthorizer // see authorizer

	views     map[schema.GroupVersionKind]*admission.VersionedAttributes
	namespace *corev1.Namespace // read when it is first needed
}

// newRequest returns the request of attributes; its context is set by who evaluates it.
func (p *Plugin) newRequest(a admission.Attributes) *request {
	return &request{Attributes: whole{a}, plugin: p}
}

// authorizer returns the authorizer of the request's expressions, which asks about the same
// only once.
func (r *request) authorizer() authorizer.UnconditionalAuthorizer {
	if r.authz == nil {
		r.authz = admissionauthorizer.NewCachingAuthorizer(r.plugin.authz)
	}
	return r.authz
}

// whole are attributes as upstream has them: the namespace of a namespace is its own, and there
// is always a user.
type whole struct{ admission.Attributes }

// GetNamespace returns the namespace of the request, or the name of the namespace that it is about.
func (w whole) GetNamespace() string {
	if w.GetResource() == match.Namespaces.WithVersion("v1") {
		return w.GetName()
	}
	return w.Attributes.GetNamespace()
}

// GetUserInfo returns the caller; it is the server itself where none is given.
func (w whole) GetUserInfo() user.Info {
	if caller := w.Attributes.GetUserInfo(); caller != nil {
		return caller
	}
	return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}

// versioned returns the objects of the request in a version.
func (r *request) versioned(by match.Matched) (*admission.VersionedAttributes, error) {
	if view := r.views[by.Kind]; view != nil {
		return view, nil
	}
	view := &admission.VersionedAttributes{Attributes: r.Attributes, VersionedKind: by.Kind}
	for _, of := range []struct {
		object runtime.Object
		to     *admission.LazyObject
	}{{r.GetObject(), &view.VersionedObject}, {r.GetOldObject(), &view.VersionedOldObject}} {
		u, is := of.object.(*unstructured.Unstructured)
		if !is {
			continue
		}
		converted, err := r.convert(u, r.own(), by)
		if err != nil {
			return nil, err
		}
		of.to.Set(converted)
	}
	if r.views == nil {
		r.views = map[schema.GroupVersionKind]*admission.VersionedAttributes{}
	}
	r.views[by.Kind] = view
	return view, nil
}

// convert returns an object of the request, or a changed one, as another resource has it:
// that by which a policy matches, or that of the request. The bodies of subresources other
// than status are of one kind for all versions.
func (r *request) convert(u *unstructured.Unstructured, from, to match.Matched) (*unstructured.Unstructured, error) {
	if from.Kind == to.Kind {
		return u, nil
	}
	catalog := r.plugin.live.Load()
	v := schema.Versions{}
	for _, of := range []struct {
		by match.Matched
		in **schema.Resource
	}{{from, &v.From}, {to, &v.To}} {
		found, served := catalog.Lookup(of.by.Resource)
		if !served || found.GVK() != of.by.Kind {
			return nil, fmt.Errorf("unable to convert to %v: unknown kind", of.by.Resource)
		}
		*of.in = found
	}
	content, err := r.plugin.cluster.Convert(r.ctx, v, u.Object)
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// own is the resource and the kind of the request itself.
func (r *request) own() match.Matched {
	return match.Matched{Resource: r.GetResource(), Kind: r.GetKind()}
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
	o := r.plugin.cluster.Find(match.Namespaces, kube.Key{Name: name})
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
