package webhook

import (
	"context"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// applies reports whether a webhook is to be called, beyond its rules: by its selectors and its
// match conditions. Errors are answered as they are.
func (p *Plugin) applies(ctx context.Context, c candidate, a upstream.Attributes, versions *versions) (bool, error) {
	is, namespaceErr := p.inNamespace(c.hooked, a)
	if !is && namespaceErr == nil {
		return false, nil
	}
	is, objectErr := selected(c.hooked, a)
	switch {
	case !is && objectErr == nil:
		return false, nil
	case namespaceErr != nil:
		return false, namespaceErr
	case objectErr != nil:
		return false, objectErr
	case len(c.MatchConditions) == 0:
		return true, nil
	}
	versioned, err := versions.of(ctx, c)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	result := c.conditions(p.compiler).Match(ctx, versioned, nil, p.authorizer)
	if result.Error != nil {
		p.logger.WarnContext(ctx, "match conditions of a webhook cannot be evaluated: the write is refused",
			slog.String("webhook", c.Name), slog.Any("error", result.Error))
		return false, apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), result.Error)
	}
	return result.Matches, nil
}

// inNamespace decides by the namespace selector, as predicates/namespace.
func (p *Plugin) inNamespace(h *hooked, a upstream.Attributes) (bool, error) {
	ofNamespaces := a.GetResource().Resource == "namespaces"
	if a.GetNamespace() == "" && !ofNamespaces {
		return true, nil
	}
	if h.namespacesErr != nil {
		return false, apierrors.NewInternalError(h.namespacesErr)
	}
	if h.namespaces.Empty() {
		return true, nil
	}
	if ofNamespaces && a.GetSubresource() == "" && (a.GetOperation() == upstream.Create || a.GetOperation() == upstream.Update) {
		return h.namespaces.Matches(labelsOf(a.GetObject())), nil // those that it will have
	}
	gr := namespaces().GroupResource()
	o := p.cluster.Find(gr, kube.Key{Name: a.GetNamespace()})
	if o == nil {
		return false, kube.NotFound(gr, a.GetNamespace())
	}
	return h.namespaces.Matches(o.Labels()), nil
}

// selected decides by the object selector, as predicates/object.
func selected(h *hooked, a upstream.Attributes) (bool, error) {
	if h.objectErr != nil {
		return false, apierrors.NewInternalError(h.objectErr)
	}
	if h.objects.Empty() {
		return true, nil
	}
	for _, o := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
		if o != nil && h.objects.Matches(labelsOf(o)) {
			return true, nil
		}
	}
	return false, nil
}

func labelsOf(o runtime.Object) labels.Set {
	if u, is := o.(*unstructured.Unstructured); is {
		return u.GetLabels()
	}
	return nil
}

// versions are the attributes of one write in the versions that webhooks want.
type versions struct {
	cluster Cluster
	a       upstream.Attributes
	from    *schema.Resource
	made    map[schema.GroupVersionKind]*upstream.VersionedAttributes
}

// of returns the attributes that a webhook gets.
func (v *versions) of(ctx context.Context, c candidate) (*upstream.VersionedAttributes, error) {
	kind := c.kind
	if kind.Empty() {
		kind = v.a.GetKind()
	}
	if made := v.made[kind]; made != nil {
		return made, nil
	}
	made := &upstream.VersionedAttributes{Attributes: v.a, VersionedKind: kind}
	for _, of := range []struct {
		from runtime.Object
		to   *upstream.LazyObject
	}{{v.a.GetObject(), &made.VersionedObject}, {v.a.GetOldObject(), &made.VersionedOldObject}} {
		u, is := of.from.(*unstructured.Unstructured)
		if !is {
			continue
		}
		if c.as != nil {
			content, err := v.cluster.Convert(ctx, schema.Versions{From: v.from, To: c.as}, u.Object)
			if err != nil {
				return nil, err
			}
			u = &unstructured.Unstructured{Object: content}
		}
		of.to.Set(u)
	}
	if v.made == nil {
		v.made = map[schema.GroupVersionKind]*upstream.VersionedAttributes{}
	}
	v.made[kind] = made
	return made, nil
}

// forget drops what was made of an object that has changed.
func (v *versions) forget() { v.made = nil }
