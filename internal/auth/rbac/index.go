package rbac

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/tidwall/btree"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/wire"
)

// index is the roles, and the bindings by their subjects. It is not changed: a change
// makes a copy, which shares all but a few nodes of the trees.
type index struct {
	roles    *btree.Map[string, *role]    // by roleKey
	bindings *btree.Map[string, *binding] // by roleKey of the binding
	subjects *btree.BTreeG[bindingsOf]    // by subject
}

// role is a Role or ClusterRole. Its rules are decoded when a decision first needs them.
type role struct {
	object *wire.Object
	rules  func() ([]rbacv1.PolicyRule, error)
}

// binding is a RoleBinding or ClusterRoleBinding, whose namespace is "".
type binding struct {
	namespace, name string
	subjects        []rbacv1.Subject
	ref             rbacv1.RoleRef
	role            string // the roleKey of ref
}

// subject is who is named by the bindings of a namespace; of those for the cluster it is "". A
// service account is its user.
type subject struct {
	namespace string
	group     bool
	name      string
}

// bindingsOf are the bindings of one subject, sorted by name.
type bindingsOf struct {
	subject  subject
	bindings []*binding
}

func before(a, b bindingsOf) bool {
	if c := cmp.Compare(a.subject.name, b.subject.name); c != 0 {
		return c < 0
	}
	if c := cmp.Compare(a.subject.namespace, b.subject.namespace); c != 0 {
		return c < 0
	}
	return !a.subject.group && b.subject.group
}

func newIndex() *index {
	return &index{
		roles: &btree.Map[string, *role]{}, bindings: &btree.Map[string, *binding]{},
		subjects: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}),
	}
}

func (x *index) clone() *index {
	return &index{roles: x.roles.Copy(), bindings: x.bindings.Copy(), subjects: x.subjects.Copy()}
}

// roleKey is the key of a role or a binding: those for the cluster have no namespace.
func roleKey(namespace, name string) string { return namespace + "/" + name }

// setRole adds, replaces or, for nil, removes a role.
func (x *index) setRole(key string, o *wire.Object) {
	if o == nil {
		x.roles.Delete(key)
		return
	}
	x.roles.Set(key, &role{object: o, rules: sync.OnceValues(func() ([]rbacv1.PolicyRule, error) {
		var decoded struct {
			Rules []rbacv1.PolicyRule `json:"rules"`
		}
		if err := json.Unmarshal(o.JSON(), &decoded); err != nil {
			return nil, fmt.Errorf("decode the rules of %s %s: %w", o.Kind(), key, err)
		}
		return decoded.Rules, nil
	})})
}

// setBinding adds, replaces or, for nil, removes a binding.
func (x *index) setBinding(key string, o *wire.Object) error {
	if old, has := x.bindings.Delete(key); has {
		for s := range old.names() {
			x.unbind(s, old)
		}
	}
	if o == nil {
		return nil
	}
	var decoded struct {
		Subjects []rbacv1.Subject `json:"subjects"`
		RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	}
	if err := json.Unmarshal(o.JSON(), &decoded); err != nil {
		return fmt.Errorf("decode %s %s: %w", o.Kind(), key, err)
	}
	b := &binding{namespace: o.Key().Namespace, name: o.Key().Name, subjects: decoded.Subjects, ref: decoded.RoleRef}
	if b.role = roleKey("", b.ref.Name); b.ref.Kind == "Role" {
		b.role = roleKey(b.namespace, b.ref.Name)
	}
	x.bindings.Set(key, b)
	for s := range b.names() {
		x.bind(s, b)
	}
	return nil
}

// names returns the subjects of a binding, once each.
func (b *binding) names() map[subject]struct{} {
	all := make(map[subject]struct{}, len(b.subjects))
	for i := range b.subjects {
		if s, ok := b.subject(&b.subjects[i]); ok {
			all[s] = struct{}{}
		}
	}
	return all
}

// subject returns who is named by a subject of a binding; false if nobody.
func (b *binding) subject(s *rbacv1.Subject) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{namespace: b.namespace, name: s.Name}, true
	case rbacv1.GroupKind:
		return subject{namespace: b.namespace, name: s.Name, group: true}, true
	case rbacv1.ServiceAccountKind:
		namespace := cmp.Or(s.Namespace, b.namespace)
		return subject{namespace: b.namespace, name: serviceaccount.MakeUsername(namespace, s.Name)}, namespace != ""
	}
	return subject{}, false
}

func byName(b *binding, name string) int { return cmp.Compare(b.name, name) }

func (x *index) bind(s subject, b *binding) {
	of, _ := x.subjects.Get(bindingsOf{subject: s})
	at, _ := slices.BinarySearchFunc(of.bindings, b.name, byName)
	x.subjects.Set(bindingsOf{s, slices.Insert(slices.Clone(of.bindings), at, b)}) // readers have the old slice
}

func (x *index) unbind(s subject, b *binding) {
	of, _ := x.subjects.Get(bindingsOf{subject: s})
	at, found := slices.BinarySearchFunc(of.bindings, b.name, byName)
	switch {
	case !found:
	case len(of.bindings) == 1:
		x.subjects.Delete(of)
	default:
		x.subjects.Set(bindingsOf{s, slices.Delete(slices.Clone(of.bindings), at, at+1)})
	}
}

// visit calls see with each binding of a user: those for the cluster, and those of a namespace,
// unless it is "". A binding that names the user twice may be seen twice. It ends when see
// returns false.
func (x *index) visit(u user.Info, namespace string, see func(b *binding) bool) {
	if !x.visitIn(u, "", see) || namespace == "" {
		return
	}
	x.visitIn(u, namespace, see)
}

func (x *index) visitIn(u user.Info, namespace string, see func(b *binding) bool) bool {
	of, _ := x.subjects.Get(bindingsOf{subject: subject{namespace: namespace, name: u.GetName()}})
	for _, b := range of.bindings {
		if !see(b) {
			return false
		}
	}
	for _, group := range u.GetGroups() {
		of, _ := x.subjects.Get(bindingsOf{subject: subject{namespace: namespace, name: group, group: true}})
		for _, b := range of.bindings {
			if !see(b) {
				return false
			}
		}
	}
	return true
}

// rulesOf returns the rules of the role that a binding refers to. names are the words for
// roles in the error that there is none.
func (x *index) rulesOf(b *binding, names nouns) ([]rbacv1.PolicyRule, error) {
	r, ok := x.roles.Get(b.role)
	if !ok {
		return nil, names.missing(b.ref)
	}
	return r.rules()
}

// describe says which binding allows something, with upstream's words.
func (b *binding) describe(u user.Info) string {
	who := ""
	for i := range b.subjects {
		s := &b.subjects[i]
		named, ok := b.subject(s)
		if !ok || !named.group && named.name != u.GetName() || named.group && !slices.Contains(u.GetGroups(), named.name) {
			continue
		}
		name := s.Name
		if s.Kind == rbacv1.ServiceAccountKind {
			name += "/" + cmp.Or(s.Namespace, b.namespace)
		}
		who = fmt.Sprintf("%s %q", s.Kind, name)
		break
	}
	kind, name := "ClusterRoleBinding", b.name
	if b.namespace != "" {
		kind, name = "RoleBinding", b.name+"/"+b.namespace
	}
	return fmt.Sprintf("%s %q of %s %q to %s", kind, name, b.ref.Kind, b.ref.Name, who)
}
