package builtin_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	registry "k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac"
	"github.com/gapless-io/gapless/internal/wire"
)

// TestEscalationIsUpstreams compares whether a user may write a role, and with which text he is
// refused, for random roles that are bound to him by his name and his groups.
func TestEscalationIsUpstreams(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(uint64(*seed), 11))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	rules := func() (all []rbacv1.PolicyRule) {
		for range 1 + r.IntN(2) {
			all = append(all, rbacv1.PolicyRule{
				Verbs: []string{pick("get", "list", "*"), "watch"}, APIGroups: []string{pick("", "apps", "*")},
				Resources: []string{pick("pods", "pods/log", "*/log", "*")},
			})
		}
		if r.IntN(2) == 0 {
			all = append(all, rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{pick("/x", "/x/*", "*")}})
		}
		return all
	}
	for range 2000 {
		var roles []*rbacv1.Role
		var clusterRoles []*rbacv1.ClusterRole
		var bindings []*rbacv1.RoleBinding
		var clusterBindings []*rbacv1.ClusterRoleBinding
		ours := rbac.New(slog.New(slog.DiscardHandler))
		tell := func(plural, kind string, o runtime.Object) {
			o.GetObjectKind().SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
			raw, err := json.Marshal(o)
			if err != nil {
				t.Fatalf("encode as JSON: %v", err)
			}
			parsed, err := wire.ParseObject(raw, nil)
			if err != nil {
				t.Fatalf("parse the object: %v", err)
			}
			ours.Change(schema.GroupResource{Group: rbacv1.GroupName, Resource: plural}, parsed, false)
		}
		for _, name := range []string{"a", "b"} {
			meta := metav1.ObjectMeta{Name: name, Namespace: "n"}
			subjects := []rbacv1.Subject{
				{Kind: pick("User", "Group"), Name: pick("u", "v"), APIGroup: rbacv1.GroupName},
				{Kind: "ServiceAccount", Name: "s"},
			}
			roles = append(roles, &rbacv1.Role{ObjectMeta: meta, Rules: rules()})
			bindings = append(bindings, &rbacv1.RoleBinding{
				ObjectMeta: meta, Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: pick("Role", "ClusterRole"), Name: name},
			})
			meta.Namespace = ""
			clusterRoles = append(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules()})
			clusterBindings = append(clusterBindings, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, Subjects: subjects[:r.IntN(2)],
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			})
			tell("roles", "Role", roles[len(roles)-1])
			tell("clusterroles", "ClusterRole", clusterRoles[len(clusterRoles)-1])
			tell("rolebindings", "RoleBinding", bindings[len(bindings)-1])
			tell("clusterrolebindings", "ClusterRoleBinding", clusterBindings[len(clusterBindings)-1])
		}
		resolver, _ := registry.NewTestRuleResolver(roles, bindings, clusterRoles, clusterBindings)
		who := &user.DefaultInfo{Name: pick("u", "v", "system:serviceaccount:n:s"), Groups: []string{pick("u", "w")}}
		wanted := rules()
		want := registry.ConfirmNoEscalation(request.WithNamespace(request.WithUser(context.Background(), who), "n"), resolver,
			wanted)

		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "n"}, Rules: wanted,
		})
		if err != nil {
			t.Fatalf("to unstructured: %v", err)
		}
		a := admission.NewAttributesRecord(&unstructured.Unstructured{Object: tree}, nil,
			rbacv1.SchemeGroupVersion.WithKind("Role"), "n", "r",
			rbacv1.SchemeGroupVersion.WithResource("roles"), "", admission.Create, &metav1.CreateOptions{}, false, who)
		got := rbac.Escalation{Of: ours, Authorizer: auth.MastersOnly{}}.Validate(t.Context(), a)
		if (got == nil) != (want == nil) ||
			got != nil && strings.TrimPrefix(got.Error(), `roles.rbac.authorization.k8s.io "r" is forbidden: `) != want.Error() {
			t.Fatalf("%v wants %v, and has\n%v\n%v\n%v\n%v\ngot  %v\nwant %v",
				who, wanted, roles, clusterRoles, bindings, clusterBindings, got, want)
		}
	}
}
