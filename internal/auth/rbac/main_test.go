package rbac_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is an authorizer whose roles a test writes.
type world struct {
	*rbac.Authorizer
	t testing.TB
}

func newWorld(t testing.TB) *world { return &world{rbac.New(slog.New(slog.DiscardHandler)), t} }

// object is the form in which the authorizer gets an object.
func (w *world) object(o any) *wire.Object {
	w.t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		w.t.Fatalf("encode as JSON: %v", err)
	}
	parsed, err := wire.ParseObject(raw, nil)
	if err != nil {
		w.t.Fatalf("parse the object: %v", err)
	}
	return parsed
}

func (w *world) change(plural string, o any, deleted bool) {
	w.t.Helper()
	w.Change(schema.GroupResource{Group: rbacv1.GroupName, Resource: plural}, w.object(o), deleted)
}

// role writes a Role, or in no namespace a ClusterRole.
func (w *world) role(namespace, name string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		w.change("clusterroles", &rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: meta, Rules: rules}, false)
		return
	}
	w.change("roles", &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: meta, Rules: rules}, false)
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: name}
}

// bind writes a binding of the same name to a role "Role/name" or "ClusterRole/name".
// Subjects are like "User:jane" and "ServiceAccount:namespace/name".
func (w *world) bind(namespace, name, role string, subjects ...string) {
	w.t.Helper()
	plural, o := binding(namespace, name, role, subjects...)
	w.change(plural, o, false)
}

func (w *world) unbind(namespace, name string) {
	w.t.Helper()
	plural, o := binding(namespace, name, "Role/x")
	w.change(plural, o, true)
}

func binding(namespace, name, role string, subjects ...string) (string, any) {
	roleKind, roleName, _ := strings.Cut(role, "/")
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: roleKind, Name: roleName}
	var all []rbacv1.Subject
	for _, s := range subjects {
		kind, name, _ := strings.Cut(s, ":")
		subject := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
		if kind == rbacv1.ServiceAccountKind {
			subject.APIGroup = ""
			if ns, account, has := strings.Cut(name, "/"); has {
				subject.Namespace, subject.Name = ns, account
			}
		}
		all = append(all, subject)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if namespace == "" {
		return "clusterrolebindings", &rbacv1.ClusterRoleBinding{
			TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: meta, Subjects: all, RoleRef: ref,
		}
	}
	return "rolebindings", &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: meta, Subjects: all, RoleRef: ref}
}

// rule is one of resources: lists are separated by commas.
func rule(verbs, groups, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: strings.Split(verbs, ","), APIGroups: strings.Split(groups, ","), Resources: strings.Split(resources, ","),
		ResourceNames: names,
	}
}

func paths(verbs string, urls ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), NonResourceURLs: urls}
}

// person is a user: a name, and groups.
func person(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: groups}
}

// on is a request about a resource like "pods", "pods/log" or "deployments.apps".
func on(verb, resource, namespace string, name ...string) auth.Attributes {
	resource, sub, _ := strings.Cut(resource, "/")
	plural, group, _ := strings.Cut(resource, ".")
	a := auth.Attributes{
		Verb: verb, Resource: schema.GroupResource{Group: group, Resource: plural}, Subresource: sub, Namespace: namespace,
	}
	if len(name) > 0 {
		a.Name = name[0]
	}
	return a
}

func at(verb, path string) auth.Attributes { return auth.Attributes{Verb: verb, Path: path} }
