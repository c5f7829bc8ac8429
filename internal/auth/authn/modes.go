package authn

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
)

const (
	nodePrefix = "system:node:"
	// everything is asked for instead of names, where one question saves many.
	everything = "*"
	// many is how many groups or extras are asked for by one question first (manyAuthorizationChecksInLoop).
	many = 4
	// boundKeys has the names of the extras of a caller who impersonates his node, instead of those.
	boundKeys = "authentication.kubernetes.io/associated-node-keys"
)

// mode is one of the ways in which a caller can be allowed to impersonate a user (KEP 5284, apiserver
// endpoints/filters/impersonation/mode.go). All but the last one are constrained: the caller needs the verb
// impersonate:<name> on each part of the user, and impersonate-on:<name>:<verb> on what the request is about.
type mode struct {
	name string // "": that of the verb impersonate, which allows everything that the user may do
	// takes reports whether the mode is for a wanted user.
	takes func(wanted *user.DefaultInfo, caller user.Info) bool
	// anyNode says that the caller is asked about without what tells on which node he runs, and about all nodes: takes has
	// looked at that. So a webhook has one answer for all pods of a DaemonSet.
	anyNode bool
}

// modes returns the modes in the order in which they are tried.
func modes() []mode {
	return []mode{
		{name: "associated-node", takes: isOwnNode, anyNode: true},
		{name: "arbitrary-node", takes: func(wanted *user.DefaultInfo, _ user.Info) bool {
			return nodeOf(wanted.Name) != "" && isOnlyName(wanted)
		}},
		{name: "serviceaccount", takes: func(wanted *user.DefaultInfo, _ user.Info) bool {
			return isAccount(wanted.Name) && isOnlyName(wanted)
		}},
		{name: "user-info", takes: func(wanted *user.DefaultInfo, _ user.Info) bool {
			return nodeOf(wanted.Name) == "" && !isAccount(wanted.Name)
		}},
		{takes: func(*user.DefaultInfo, user.Info) bool { return true }},
	}
}

// isOwnNode reports whether a caller is a service account in a pod on the node that is wanted.
func isOwnNode(wanted *user.DefaultInfo, caller user.Info) bool {
	node := nodeOf(wanted.Name)
	return node != "" && isOnlyName(wanted) && isAccount(caller.GetName()) &&
		slices.Equal(caller.GetExtra()[serviceaccount.NodeNameKey], []string{node})
}

func isOnlyName(u *user.DefaultInfo) bool {
	return u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0
}

func isAccount(username string) bool {
	_, _, err := serviceaccount.SplitUsername(username)
	return err == nil
}

// nodeOf returns the node of a kubelet's user; "" if it is none.
func nodeOf(username string) string {
	name, is := strings.CutPrefix(username, nodePrefix)
	if !is || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return ""
	}
	return name
}

func (m mode) constrained() bool { return m.name != "" }

// verb is what a caller needs on the parts of a user.
func (m mode) verb() string {
	if !m.constrained() {
		return "impersonate"
	}
	return "impersonate:" + m.name
}

// constraint is the verb that the audit log has.
func (m mode) constraint() string {
	if !m.constrained() {
		return ""
	}
	return m.verb()
}

// group is the API group of users, groups, nodes and service accounts in the rules of roles.
func (m mode) group() string {
	if !m.constrained() {
		return ""
	}
	return authenticationv1.GroupName
}

// completed returns a user with the groups that follow from his name.
func (m mode) completed(wanted *user.DefaultInfo) *user.DefaultInfo {
	u := *wanted
	if m.constrained() && nodeOf(u.Name) != "" {
		u.Groups = []string{user.NodesGroup}
	}
	if namespace, _, err := serviceaccount.SplitUsername(u.Name); err == nil && len(u.Groups) == 0 {
		u.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	group := user.AllAuthenticated
	if u.Name == user.Anonymous || slices.Contains(u.Groups, user.AllUnauthenticated) {
		group = user.AllUnauthenticated
	}
	if !slices.Contains(u.Groups, group) {
		u.Groups = append(slices.Clip(u.Groups), group)
	}
	return &u
}

// attempt is a request that wants to run as another user than its caller.
type attempt struct {
	caller  user.Info
	wanted  *user.DefaultInfo
	request auth.Attributes
}

// by returns what the authorizer of an Impersonation is asked about an attempt in a mode.
func (a attempt) by(m mode, i *Impersonation) questions {
	q := questions{attempt: a, mode: m, authorizer: i.authorizer, asked: i.metrics.questions}
	if m.anyNode {
		q.caller = &user.DefaultInfo{
			Name: a.caller.GetName(), UID: a.caller.GetUID(), Groups: a.caller.GetGroups(),
			Extra: map[string][]string{boundKeys: slices.Sorted(maps.Keys(a.caller.GetExtra()))},
		}
	}
	return q
}

// questions asks whether an attempt is allowed in one mode.
type questions struct {
	attempt
	mode

	authorizer auth.Authorizer
	asked      counted
}

// allowed asks about the request, and about each part of the wanted user, in upstream's order.
func (q questions) allowed(ctx context.Context) error {
	if q.constrained() {
		on := q.request
		on.Verb = "impersonate-on:" + q.name + ":" + on.Verb
		if err := q.ask(ctx, on); err != nil {
			return err
		}
	}
	if err := q.ask(ctx, q.username()); err != nil {
		return err
	}
	if q.wanted.UID != "" {
		if err := q.ask(ctx, q.part(authenticationv1.GroupName, "uids", q.wanted.UID)); err != nil {
			return err
		}
	}
	if err := q.groups(ctx); err != nil {
		return err
	}
	return q.extra(ctx)
}

// ask asks one question. What went wrong with an authorizer is 403 with the reason, as upstream.
func (q questions) ask(ctx context.Context, a auth.Attributes) error {
	began := time.Now()
	d := q.authorizer.Decide(ctx, q.caller, a)
	decision := denied
	if d.Allowed {
		decision = allowed
	}
	q.asked.count(q.label(), decision, began)
	if d.Allowed || d.Refusal != nil || d.Failure == nil {
		return d.Err(q.caller, a)
	}
	why := d.Failure.Error()
	if reason := d.Why(); reason != "" {
		why += ": " + reason
	}
	return auth.Refused(q.caller, a, why)
}

// part returns what is asked about a part of the wanted user.
func (q questions) part(group, resource, name string) auth.Attributes {
	return auth.Attributes{
		Verb: q.verb(), Resource: schema.GroupResource{Group: group, Resource: resource}, Version: "v1", Name: name,
	}
}

// username returns what is asked about the name.
func (q questions) username() auth.Attributes {
	namespace, name, err := serviceaccount.SplitUsername(q.wanted.Name)
	node := nodeOf(q.wanted.Name)
	switch {
	case err == nil:
		account := q.part(q.group(), "serviceaccounts", name)
		account.Namespace = namespace
		return account
	case node == "" || !q.constrained():
		return q.part(q.group(), "users", q.wanted.Name)
	case q.anyNode:
		node = everything
	}
	return q.part(q.group(), "nodes", node)
}

// groups asks about the groups. None of them is empty: that is refused with the headers.
func (q questions) groups(ctx context.Context) error {
	groups := q.wanted.Groups
	if q.constrained() {
		if slices.Contains(groups, user.SystemPrivilegedGroup) {
			return auth.Refused(q.caller, q.part(q.group(), "groups", user.SystemPrivilegedGroup),
				"impersonating the system:masters group is not allowed")
		}
		if len(groups) >= many && q.ask(ctx, q.part(q.group(), "groups", everything)) == nil {
			return nil
		}
	}
	for _, group := range groups {
		if err := q.ask(ctx, q.part(q.group(), "groups", group)); err != nil {
			return err
		}
	}
	return nil
}

// extra asks about the extras, in the order of their keys; upstream's is random.
func (q questions) extra(ctx context.Context) error {
	of := func(key, value string) auth.Attributes {
		a := q.part(authenticationv1.GroupName, "userextras", value)
		a.Subresource = key
		return a
	}
	extra := q.wanted.Extra
	if q.constrained() {
		values := 0
		for _, key := range slices.Sorted(maps.Keys(extra)) {
			if wrong := wrongExtra(key, extra[key]); wrong != "" {
				return auth.Refused(q.caller, of("", ""), wrong)
			}
			values += len(extra[key])
		}
		if values >= many && q.ask(ctx, of(everything, everything)) == nil {
			return nil
		}
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		for _, value := range extra[key] {
			if err := q.ask(ctx, of(key, value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// wrongExtra says what constrained impersonation does not allow in an extra; "": nothing. Its key and its values are not
// empty: there would be no header.
func wrongExtra(key string, values []string) string {
	if err := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
		return fmt.Sprintf("impersonating an invalid key in extra is not allowed: %v", err)
	}
	if key != strings.ToLower(key) {
		return fmt.Sprintf("impersonating a non-lowercase key in extra is not allowed: %q", key)
	}
	if slices.Contains(values, "") {
		return "impersonating the empty string value in extra is not allowed"
	}
	return ""
}
