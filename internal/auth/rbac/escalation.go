package rbac

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac/rules"
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/wire"
)

// Escalation refuses roles with rights that their writer does not have, and bindings to
// such roles, unless he may "escalate" or "bind" them (kubernetes
// pkg/registry/rbac/*/policybased). It is an admission plugin: it sees an object as it will be
// stored.
type Escalation struct {
	// Of has the roles.
	Of *Authorizer
	// Authorizer is the one that the server enforces; it decides on "escalate" and "bind".
	Authorizer auth.Authorizer
}

// Handles implements admission.Plugin.
func (Escalation) Handles(r *kinds.Resource, subresource string, op admission.Operation) bool {
	return handlesRoles(r.GR(), subresource, op)
}

func handlesRoles(gr kinds.GroupResource, subresource string, op admission.Operation) bool {
	return gr.Group == rbacv1.GroupName && subresource == "" && (op == admission.Create || op == admission.Update)
}

// Waits implements admission.Plugin: its errors have been those of a plugin that may.
func (Escalation) Waits(*kinds.Resource, string, admission.Operation) bool { return true }

// Admit implements admission.Plugin.
func (Escalation) Admit(context.Context, admission.Attributes, func() error) error { return nil }

// Validate implements admission.Plugin. Errors: 403, and 404 for a binding to a role that
// does not exist.
func (e Escalation) Validate(ctx context.Context, a admission.Attributes) error {
	u := a.GetUserInfo()
	if !handlesRoles(a.GetResource().GroupResource(), a.GetSubresource(), a.GetOperation()) {
		return nil
	}
	if u == nil || slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return nil // the server itself, or who may do everything
	}
	o, is := a.GetObject().(*unstructured.Unstructured)
	if !is {
		return wire.Internal(fmt.Errorf("check roles: the object is a %T", a.GetObject()))
	}
	old, updates := a.GetOldObject().(*unstructured.Unstructured)
	if updates && old != nil && onlyCollected(o, old) {
		return nil
	}
	switch resource := a.GetResource().Resource; resource {
	case roles, clusterRoles:
		return e.role(ctx, a, o, old)
	case roleBindings, clusterRoleBindings:
		return e.binding(ctx, a, o)
	}
	return nil
}

// role checks a Role or ClusterRole.
func (e Escalation) role(ctx context.Context, a admission.Attributes, o, old *unstructured.Unstructured) error {
	u, gr := a.GetUserInfo(), a.GetResource().GroupResource()
	wanted := auth.Attributes{Verb: "escalate", Resource: gr, Version: "*", Namespace: a.GetNamespace()}
	if old != nil {
		wanted.Name = a.GetName() // the path of a creation has none
	}
	if e.Authorizer.Decide(ctx, u, wanted).Allowed {
		return nil
	}
	role, err := decode[rbacv1.ClusterRole](o)
	if err != nil {
		return err
	}
	if why := e.escalates(a, role.Rules); why != nil {
		return wire.Forbidden(gr, role.Name, why.Error())
	}
	if gr.Resource != clusterRoles {
		return nil
	}
	aggregates := len(selectors(role)) > 0
	if old != nil {
		before, err := decode[rbacv1.ClusterRole](old)
		if err != nil {
			return err
		}
		aggregates = aggregates || len(selectors(before)) > 0
	}
	// An aggregated role may get all rights.
	if aggregates && e.escalates(a, full()) != nil {
		return wire.Forbidden(gr, role.Name, "must have cluster-admin privileges to use the aggregationRule")
	}
	return nil
}

func selectors(r *rbacv1.ClusterRole) []metav1.LabelSelector {
	if r.AggregationRule == nil {
		return nil
	}
	return r.AggregationRule.ClusterRoleSelectors
}

// full are the rules of cluster-admin.
func full() []rbacv1.PolicyRule {
	all := []string{"*"}
	return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
}

// binding checks a RoleBinding or ClusterRoleBinding.
func (e Escalation) binding(ctx context.Context, a admission.Attributes, o *unstructured.Unstructured) error {
	u, gr := a.GetUserInfo(), a.GetResource().GroupResource()
	bound, err := decode[rbacv1.RoleBinding](o)
	if err != nil {
		return err
	}
	ref := bound.RoleRef
	resource := map[string]string{"Role": roles, "ClusterRole": clusterRoles}[ref.Kind]
	wanted := auth.Attributes{
		Verb: "bind", Resource: kinds.GroupResource{Group: ref.APIGroup, Resource: resource}, Version: "*",
		Namespace: a.GetNamespace(), Name: ref.Name,
	}
	if resource != "" && e.Authorizer.Decide(ctx, u, wanted).Allowed {
		return nil
	}
	b := &binding{ref: ref, role: roleKey("", ref.Name)}
	if ref.Kind == "Role" {
		b.role = roleKey(a.GetNamespace(), ref.Name)
	}
	of, err := e.Of.current().rulesOf(b, storedFor(gr))
	if err != nil {
		return err
	}
	if why := e.escalates(a, of); why != nil {
		return wire.Forbidden(gr, bound.Name, why.Error())
	}
	return nil
}

// escalates returns an error that names the rights that the user who writes does not have in the namespace of the write.
func (e Escalation) escalates(a admission.Attributes, wanted []rbacv1.PolicyRule) error {
	u := a.GetUserInfo()
	has, resolution := e.Of.rulesFor(u, a.GetNamespace(), storedFor(a.GetResource().GroupResource()))
	missing := rules.Missing(has, wanted)
	if len(missing) == 0 {
		return nil
	}
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(rules.Texts(missing), "\n"))
	if resolution != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{resolution})
	}
	return errors.New(text)
}

func decode[T any](u *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return nil, wire.Internal(fmt.Errorf("check roles: %w", err))
	}
	return typed, nil
}

// onlyCollected reports whether nothing but what a garbage collector writes differs.
func onlyCollected(o, old *unstructured.Unstructured) bool {
	o, old = o.DeepCopy(), old.DeepCopy()
	for _, u := range []*unstructured.Unstructured{o, old} {
		u.SetOwnerReferences(nil)
		u.SetFinalizers(nil)
		u.SetManagedFields(nil)
		u.SetSelfLink("")
	}
	return equality.Semantic.DeepEqual(o.Object, old.Object)
}
