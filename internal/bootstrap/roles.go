package bootstrap

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The label of bootstrap roles, and the annotation that turns off their reconciliation
// (kubernetes pkg/registry/rbac/reconciliation).
const (
	bootstrapping = "kubernetes.io/bootstrapping"
	aggregateTo   = "rbac.authorization.k8s.io/aggregate-to-"
)

func read() []string  { return []string{"get", "list", "watch"} }
func write() []string { return []string{"create", "delete", "deletecollection", "patch", "update"} }
func all() []string   { return []string{"*"} }

func both() []string {
	verbs := append(read(), write()...)
	slices.Sort(verbs)
	return verbs
}

func rule(verbs []string, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: resources}
}

// role is a bootstrap role. to names the role into which it is aggregated, "" for none;
// from is the role's name among those labels, when it is aggregated from others.
func role(name, to, from string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{bootstrapping: "rbac-defaults"},
			Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"},
		},
		Rules: rules,
	}
	if to != "" {
		r.Labels[aggregateTo+to] = "true"
	}
	if from != "" {
		r.AggregationRule = &rbacv1.AggregationRule{
			ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{aggregateTo + from: "true"}}},
		}
	}
	return r
}

// clusterRoles are those of users: kubernetes
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy. The roles of the components of a
// cluster (system:kube-scheduler, system:node, controllers) are not among them.
func clusterRoles() []*rbacv1.ClusterRole {
	return []*rbacv1.ClusterRole{
		role("cluster-admin", "", "", rule(all(), "*", "*"), rbacv1.PolicyRule{Verbs: all(), NonResourceURLs: all()}),
		role("admin", "", "admin"),
		role("edit", "admin", "edit"),
		role("view", "edit", "view"),
		role("system:aggregate-to-admin", "admin", "",
			rule([]string{"create"}, "authorization.k8s.io", "localsubjectaccessreviews"),
			rule(both(), "rbac.authorization.k8s.io", "rolebindings", "roles"),
		),
		role("system:aggregate-to-edit", "edit", "", editRules()...),
		role("system:aggregate-to-view", "view", "", viewRules()...),
		role("system:basic-user", "", "",
			rule([]string{"create"}, "authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
			rule([]string{"create"}, "authentication.k8s.io", "selfsubjectreviews"),
		),
		role("system:discovery", "", "", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{
			"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/",
		}}),
		role("system:public-info-viewer", "", "", rbacv1.PolicyRule{
			Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz", "/livez", "/readyz", "/version", "/version/"},
		}),
	}
}

func editRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read(), "", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
		rule([]string{"impersonate"}, "", "serviceaccounts"),
		rule(write(), "", "pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"),
		rule([]string{"create"}, "", "pods/eviction"),
		rule(write(), "", "configmaps", "events", "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale",
			"secrets", "serviceaccounts", "services", "services/proxy"),
		rule([]string{"create"}, "", "serviceaccounts/token"),
		rule(write(), "apps", "daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets", "replicasets/scale",
			"statefulsets", "statefulsets/scale"),
		rule(write(), "autoscaling", "horizontalpodautoscalers"),
		rule(write(), "batch", "cronjobs", "jobs"),
		rule(write(), "extensions", "daemonsets", "deployments", "deployments/rollback", "deployments/scale", "ingresses",
			"networkpolicies", "replicasets", "replicasets/scale", "replicationcontrollers/scale"),
		rule(write(), "policy", "poddisruptionbudgets"),
		rule(write(), "networking.k8s.io", "ingresses", "networkpolicies"),
		rule(both(), "coordination.k8s.io", "leases"),
	}
}

func viewRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		rule(read(), "", "configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods",
			"replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services", "services/status"),
		rule(read(), "", "bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status",
			"replicationcontrollers/status", "resourcequotas", "resourcequotas/status"),
		rule(read(), "", "namespaces"),
		rule(read(), "discovery.k8s.io", "endpointslices"),
		rule(read(), "apps", "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale",
			"deployments/status", "replicasets", "replicasets/scale", "replicasets/status", "statefulsets", "statefulsets/scale", "statefulsets/status"),
		rule(read(), "autoscaling", "horizontalpodautoscalers", "horizontalpodautoscalers/status"),
		rule(read(), "batch", "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
		rule(read(), "extensions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale", "deployments/status", "ingresses",
			"ingresses/status", "networkpolicies", "replicasets", "replicasets/scale", "replicasets/status", "replicationcontrollers/scale"),
		rule(read(), "policy", "poddisruptionbudgets", "poddisruptionbudgets/status"),
		rule(read(), "networking.k8s.io", "ingresses", "ingresses/status", "networkpolicies"),
	}
}

// clusterRoleBindings bind the bootstrap roles to groups.
func clusterRoleBindings() []*rbacv1.ClusterRoleBinding {
	bind := func(name string, groups ...string) *rbacv1.ClusterRoleBinding {
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: role(name, "", "").ObjectMeta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		}
		for _, group := range groups {
			b.Subjects = append(b.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
		return b
	}
	return []*rbacv1.ClusterRoleBinding{
		bind("cluster-admin", "system:masters"),
		bind("system:basic-user", "system:authenticated"),
		bind("system:discovery", "system:authenticated"),
		bind("system:public-info-viewer", "system:authenticated", "system:unauthenticated"),
	}
}
