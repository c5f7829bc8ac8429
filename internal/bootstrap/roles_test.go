package bootstrap_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/gapless-io/gapless/internal/bootstrap"
	"github.com/gapless-io/gapless/internal/wire"
)

func TestStartReconcilesRoles(t *testing.T) {
	log := openLog(t)
	c := keep(t, log, here, nil)
	edited := c.at(roles, "clusterroles", "", "system:aggregate-to-admin")
	c.merge(edited, `{"rules":[{"verbs":["*"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"]},
		{"verbs":["get"],"apiGroups":["example.org"],"resources":["mine"]}],"metadata":{"labels":{"kubernetes.io/bootstrapping":null,"mine":"x"}}}`)
	manual := c.at(roles, "clusterroles", "", "system:discovery")
	c.merge(manual, `{"rules":[],"metadata":{"annotations":{"rbac.authorization.kubernetes.io/autoupdate":"false"}}}`)
	binding := c.at(roles, "clusterrolebindings", "", "cluster-admin")
	c.merge(binding, `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"jane"}]}`)
	c.delete(c.at(roles, "clusterroles", "", "cluster-admin"))
	c.stop()

	c = keep(t, log, here, nil)
	role := read[rbacv1.ClusterRole](t, c.find(edited))
	want := []rbacv1.PolicyRule{
		{Verbs: []string{"*"}, APIGroups: []string{"rbac.authorization.k8s.io"}, Resources: []string{"*"}},
		{Verbs: []string{"get"}, APIGroups: []string{"example.org"}, Resources: []string{"mine"}},
		{
			Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"},
			Resources: []string{"localsubjectaccessreviews"},
		},
	}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if role.Labels["kubernetes.io/bootstrapping"] == "" || role.Labels["mine"] != "x" {
		t.Errorf("labels %v", role.Labels)
	}
	if left := read[rbacv1.ClusterRole](t, c.find(manual)); len(left.Rules) != 0 {
		t.Errorf("a role whose annotation says so was not left alone: %v", left.Rules)
	}
	var names []string
	for _, s := range read[rbacv1.ClusterRoleBinding](t, c.find(binding)).Subjects {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"jane", "system:masters"}, names); diff != "" {
		t.Errorf("subjects (-want +got):\n%s", diff)
	}
	if c.find(c.at(roles, "clusterroles", "", "cluster-admin")) == nil {
		t.Error("a role that was deleted was not made again")
	}
}

func TestRolesAreAggregated(t *testing.T) {
	c := keep(t, openLog(t), here, ca())
	c.waitComplete()
	view := c.at(roles, "clusterroles", "", "view")
	before := len(read[rbacv1.ClusterRole](t, c.find(view)).Rules)
	mine := c.at(roles, "clusterroles", "", "mine")
	c.create(c.at(roles, "clusterroles"),
		`{"metadata":{"name":"mine","labels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}},
		"rules":[{"verbs":["get"],"apiGroups":["example.org"],"resources":["widgets"]}]}`)
	has := func(n int) func(o *wire.Object) bool {
		return func(o *wire.Object) bool { return len(read[rbacv1.ClusterRole](t, o).Rules) == n }
	}
	for _, name := range []string{"view", "edit", "admin"} { // each is a part of the next
		wanted := map[string]int{"view": before + 1, "edit": 28, "admin": 30}[name]
		c.eventually(c.at(roles, "clusterroles", "", name), "the rule in "+name, has(wanted))
	}
	c.delete(mine)
	c.eventually(view, "the end of the rule", has(before))
}

func TestTheRulesOfKubeletsAreThoseOfTheirRole(t *testing.T) {
	rules := bootstrap.NodeRules()
	if len(rules) == 0 || !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Resources, "nodes/status") && slices.Contains(r.Verbs, "patch")
	}) {
		t.Errorf("the rules of system:node are %v", rules)
	}
}
