// Package guard checks who configures admission.
//
// A [Plugin] refuses policies and bindings with parameters that the caller may not read: what a
// policy answers could tell him of them. Upstream's strategies do so
// (pkg/registry/admissionregistration of Kubernetes 1.37).
package guard

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/admission"
	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster reads objects from memory.
type Cluster interface {
	// Find returns an object in the version in which it is stored; nil when there is none.
	Find(gr kinds.GroupResource, key wire.Key) *wire.Object
}

// Config says what a plugin works with.
type Config struct {
	Live       *kinds.Live
	Cluster    Cluster
	Authorizer auth.Authorizer
}

// Plugin is an admission plugin.
type Plugin struct{ cfg Config }

var _ admission.Plugin = (*Plugin)(nil)

// New returns a plugin.
func New(cfg Config) *Plugin { return &Plugin{cfg: cfg} }

// Handles implements admission.Plugin.
func (p *Plugin) Handles(r *kinds.Resource, subresource string, op upstream.Operation) bool {
	switch r.Plural {
	case "mutatingwebhookconfigurations", "validatingwebhookconfigurations":
		return false // they have no parameters
	}
	return r.Group == admissionv1.GroupName && subresource == "" && (op == upstream.Create || op == upstream.Update)
}

// Waits implements admission.Plugin: the authorizer may.
func (*Plugin) Waits(*kinds.Resource, string, upstream.Operation) bool { return true }

// Admit implements admission.Plugin; it changes nothing.
func (p *Plugin) Admit(context.Context, upstream.Attributes, func() error) error { return nil }

// Validate implements admission.Plugin. Errors: 422.
func (p *Plugin) Validate(ctx context.Context, a upstream.Attributes) error {
	if a.GetResource().Group != admissionv1.GroupName || a.GetSubresource() != "" {
		return nil
	}
	object, is := a.GetObject().(*unstructured.Unstructured)
	if !is {
		return nil // a deletion
	}
	u := a.GetUserInfo()
	if u == nil || slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	old, _ := a.GetOldObject().(*unstructured.Unstructured)
	why, err := p.refusal(ctx, a, object, old)
	if err != nil || why == nil {
		return err
	}
	return wire.Invalid(a.GetKind().GroupKind(), object.GetName(), field.ErrorList{why})
}

// refusal returns why the caller may not write a policy or a binding; nil if he may.
func (p *Plugin) refusal(ctx context.Context, a upstream.Attributes,
	object, old *unstructured.Unstructured,
) (*field.Error, error) {
	switch a.GetResource().Resource {
	case "mutatingadmissionpolicies", "validatingadmissionpolicies":
		now, err := paramKind(object)
		if err != nil || now == nil {
			return nil, err
		}
		if old != nil {
			before, err := paramKind(old)
			if err != nil || before != nil && *before == *now {
				return nil, err
			}
		}
		return p.policy(ctx, a.GetUserInfo(), now)
	case "mutatingadmissionpolicybindings", "validatingadmissionpolicybindings":
		var spec struct {
			PolicyName string                `json:"policyName"`
			ParamRef   *admissionv1.ParamRef `json:"paramRef"`
		}
		if err := read(object, &spec); err != nil || spec.ParamRef == nil {
			return nil, err
		}
		// An update that changes neither is checked too, as upstream, which compares pointers.
		policies := "validatingadmissionpolicies"
		if a.GetResource().Resource == "mutatingadmissionpolicybindings" {
			policies = "mutatingadmissionpolicies"
		}
		return p.binding(ctx, a.GetUserInfo(), spec.ParamRef,
			p.cfg.Cluster.Find(kinds.GroupResource{Group: admissionv1.GroupName, Resource: policies},
				wire.Key{Name: spec.PolicyName}), spec.PolicyName)
	}
	return nil, nil
}

// policy checks that a caller may read all parameters of a kind.
func (p *Plugin) policy(ctx context.Context, u user.Info, kind *admissionv1.ParamKind) (*field.Error, error) {
	resource := p.resource(kind)
	may, err := p.may(ctx, u, auth.Attributes{Verb: "get", Resource: resource, Namespace: "*", Name: "*"})
	if may || err != nil {
		return nil, err
	}
	return field.Forbidden(field.NewPath("spec", "paramKind"), fmt.Sprintf(
		`user %v must have "get" permission on all objects of the referenced paramKind (kind=%s, apiVersion=%s)`,
		shown(u), kind.Kind, kind.APIVersion)), nil
}

// binding checks that a caller may read what a binding refers to. Without its policy the
// kind is not known, and he must be allowed to read all kinds.
func (p *Plugin) binding(ctx context.Context, u user.Info, ref *admissionv1.ParamRef, policy *wire.Object,
	name string,
) (*field.Error, error) {
	var kind *admissionv1.ParamKind
	if policy != nil {
		stored := &unstructured.Unstructured{}
		if err := stored.UnmarshalJSON(policy.JSON()); err != nil {
			return nil, wire.Internal(fmt.Errorf("read the policy %s: %w", name, err))
		}
		var err error
		if kind, err = paramKind(stored); err != nil {
			return nil, err
		}
	}
	asked := auth.Attributes{
		Verb: "get", Resource: kinds.GroupResource{Group: "*", Resource: "*"}, Namespace: ref.Namespace, Name: ref.Name,
	}
	if ref.Name == "" {
		asked.Verb = "list"
	}
	if kind != nil {
		asked.Resource = p.resource(kind)
	}
	may, err := p.may(ctx, u, asked)
	if may || err != nil {
		return nil, err
	}
	at := field.NewPath("spec", "paramRef")
	const all = `to determine minimum required permissions and user %v does not have "%v" permission for all groups, ` +
		`versions and resources`
	switch {
	case policy == nil:
		return field.Forbidden(at, fmt.Sprintf("unable to get policy %s "+all, name, shown(u), asked.Verb)), nil
	case kind != nil && asked.Resource.Resource == "*":
		return field.Forbidden(at, fmt.Sprintf("unable to resolve paramKind %v "+all, *kind, shown(u), asked.Verb)), nil
	}
	return field.Forbidden(at,
		fmt.Sprintf(`user %v does not have "%v" permission on the object referenced by paramRef`, shown(u), asked.Verb)), nil
}

// may reports whether a caller may do something.
func (p *Plugin) may(ctx context.Context, u user.Info, a auth.Attributes) (bool, error) {
	err := p.cfg.Authorizer.Authorize(ctx, u, a)
	if err != nil && wire.StatusOf(err).Code == http.StatusForbidden {
		return false, nil
	}
	return err == nil, err
}

// resource is that of a kind of parameters; all of them, "*", when it is not served.
func (p *Plugin) resource(kind *admissionv1.ParamKind) kinds.GroupResource {
	gvk := apischema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
	for _, r := range p.cfg.Live.Load().Resources() {
		if r.GVK() == gvk {
			return r.GR()
		}
	}
	return kinds.GroupResource{Group: gvk.Group, Resource: "*"}
}

// shown is a caller as upstream's texts have him.
func shown(u user.Info) *user.DefaultInfo {
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: u.GetExtra()}
}

func paramKind(policy *unstructured.Unstructured) (*admissionv1.ParamKind, error) {
	var spec struct {
		ParamKind *admissionv1.ParamKind `json:"paramKind"`
	}
	err := read(policy, &spec)
	return spec.ParamKind, err
}

// read fills a part of a spec.
func read(object *unstructured.Unstructured, into any) error {
	spec, _ := object.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, into); err != nil {
		return wire.Internal(fmt.Errorf("read the spec of %s %s: %w", object.GetKind(), object.GetName(), err))
	}
	return nil
}
