// Package rbac decides what callers may do by the roles and bindings of
// rbac.authorization.k8s.io, as Kubernetes does (plugin/pkg/auth/authorizer/rbac).
//
// An [Authorizer] follows the roles and bindings, and decides from an index of them in memory;
// a change holds for the first decision after it. [Escalation] is an admission plugin: nobody
// may write a role with rights that he does not have, or bind one.
//
// Why a user may or may not do something is decided here, what a request asks for in
// apiserver/route (attributes.go); docs/access.md.
package rbac

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac/rules"
	"github.com/gapless-io/gapless/internal/wire"
)

// Authorizer decides by roles and bindings. Members of system:masters may do everything.
// It is safe for concurrent use.
type Authorizer struct {
	logger *slog.Logger
	index  atomic.Pointer[index]
	// changed says that there are pending changes, or that they are being applied.
	changed atomic.Bool

	// applying is held while changes are applied; it is locked before mu.
	applying sync.Mutex
	// mu guards pending. It is never held for long: writers wait for it.
	mu      sync.Mutex
	pending map[place]*wire.Object // nil: deleted
}

// place is where a role or binding is.
type place struct {
	resource string
	key      wire.Key
}

// New returns an Authorizer without roles.
func New(logger *slog.Logger) *Authorizer {
	a := &Authorizer{logger: logger}
	a.index.Store(newIndex())
	return a
}

// The resources that an Authorizer follows.
const (
	roles               = "roles"
	clusterRoles        = "clusterroles"
	roleBindings        = "rolebindings"
	clusterRoleBindings = "clusterrolebindings"
)

// Follows returns the resources whose objects Replace and Change want.
func (a *Authorizer) Follows() []schema.GroupResource {
	var all []schema.GroupResource
	for _, name := range []string{roles, clusterRoles, roleBindings, clusterRoleBindings} {
		all = append(all, schema.GroupResource{Group: rbacv1.GroupName, Resource: name})
	}
	return all
}

// Replace takes all objects of a resource. It is called before there are changes of it.
func (a *Authorizer) Replace(gr schema.GroupResource, objects []*wire.Object) {
	for _, o := range objects {
		a.Change(gr, o, false)
	}
}

// Change takes a written object. It only notes it: the next decision applies it.
func (a *Authorizer) Change(gr schema.GroupResource, o *wire.Object, deleted bool) {
	at := place{gr.Resource, o.Key()}
	if deleted {
		o = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pending == nil {
		a.pending = map[place]*wire.Object{}
	}
	a.pending[at] = o
	a.changed.Store(true)
}

// current returns the index with all changes.
func (a *Authorizer) current() *index {
	if !a.changed.Load() {
		return a.index.Load()
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	for {
		a.mu.Lock()
		pending := a.pending
		a.pending = nil
		if len(pending) == 0 {
			a.changed.Store(false)
		}
		a.mu.Unlock()
		if len(pending) == 0 {
			return a.index.Load()
		}
		a.index.Store(a.apply(a.index.Load(), pending))
	}
}

func (a *Authorizer) apply(old *index, pending map[place]*wire.Object) *index {
	x := old.clone()
	for at, o := range pending {
		key := roleKey(at.key.Namespace, at.key.Name)
		switch at.resource {
		case roles, clusterRoles:
			x.setRole(key, o)
		case roleBindings, clusterRoleBindings:
			if err := x.setBinding(key, o); err != nil { // nobody has rights by it
				a.logger.Error("ignore a binding", slog.Any("err", err))
			}
		}
	}
	return x
}

// Decide implements auth.Authorizer.
func (a *Authorizer) Decide(_ context.Context, u user.Info, wanted auth.Attributes) auth.Decision {
	if slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup) {
		return auth.Decision{Allowed: true}
	}
	x := a.current()
	var errs []error
	var by *binding
	x.visit(u, wanted.Namespace, func(b *binding) bool {
		of, err := x.rulesOf(b, listed)
		if err != nil {
			errs = append(errs, err)
			return true
		}
		for i := range of {
			if rules.Allows(&of[i], &wanted) {
				by = b
				return false
			}
		}
		return true
	})
	switch {
	case by != nil:
		b := by // by is on the heap with the closure that has it
		return auth.Decision{Allowed: true, Reason: func() string { return "RBAC: allowed by " + b.describe(u) }}
	case len(errs) > 0:
		all := utilerrors.NewAggregate(errs)
		return auth.Decision{Reason: func() string { return fmt.Sprintf("RBAC: %v", all) }}
	}
	return auth.Decision{}
}

// Authorize implements auth.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, u user.Info, wanted auth.Attributes) error {
	return a.Decide(ctx, u, wanted).Err(u, wanted)
}

// Rules implements auth.Authorizer.
func (a *Authorizer) Rules(_ context.Context, u user.Info, namespace string) (auth.Rules, error) {
	of, err := a.rulesFor(u, namespace, listed)
	var all auth.Rules
	for _, rule := range of {
		if len(rule.Resources) > 0 {
			all.Resources = append(all.Resources, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			all.Paths = append(all.Paths, authorizationv1.NonResourceRule{
				Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs,
			})
		}
	}
	return all, err
}

// rulesFor returns all rules of a user: for the cluster, and in a namespace unless it is "".
// An error says which roles are missing.
func (a *Authorizer) rulesFor(u user.Info, namespace string, names nouns) ([]rbacv1.PolicyRule, error) {
	x := a.current()
	bound := map[string]*binding{} // by "namespace/name": a user may be in a binding by several groups
	x.visit(u, namespace, func(b *binding) bool {
		bound[roleKey(b.namespace, b.name)] = b
		return true
	})
	var all []rbacv1.PolicyRule
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(bound)) {
		of, err := x.rulesOf(bound[key], names)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, of...)
	}
	return all, utilerrors.NewAggregate(errs)
}

// nouns are the words for the two kinds of roles in errors.
type nouns struct{ role, clusterRole string }

// listed are those of upstream's authorizer, which reads roles from caches.
//
//nolint:gochecknoglobals // a constant
var listed = nouns{"role", "clusterrole"}

// storedFor are those of upstream's checks of writes, which read roles from the store: it calls what is missing by the
// resource of the request (apiserver registry/generic/registry/store.go qualifiedResourceFromContext), so that a binding of
// a role that does not exist is "not found" itself.
func storedFor(written schema.GroupResource) nouns { return nouns{written.Resource, written.Resource} }

// missing is the error for a reference to a role that does not exist.
func (n nouns) missing(ref rbacv1.RoleRef) error {
	switch ref.Kind {
	case "Role":
		return wire.NotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: n.role}, ref.Name)
	case "ClusterRole":
		return wire.NotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: n.clusterRole}, ref.Name)
	}
	return fmt.Errorf("unsupported role reference kind: %q", ref.Kind)
}
