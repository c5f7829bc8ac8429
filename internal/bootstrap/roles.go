package bootstrap

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gapless-io/gapless/internal/kinds"
)

// policyText has the roles and bindings of every cluster, one on a line: kubernetes
// plugin/pkg/auth/authorizer/rbac/bootstrappolicy, with those of components and
// controllers. The test TestBootstrapRolesAreUpstreams in conformance/builtin compares it with
// Kubernetes' own, and writes it with -update.
//
//go:embed policy.jsonl
var policyText string

// firstRoles are the roles and bindings that each start reconciles, by name.
func firstRoles() map[string][]object {
	all := map[string][]object{}
	for line := range strings.Lines(policyText) {
		o := policyObject(line)
		all[o.name] = append(all[o.name], o)
	}
	return all
}

// policyObject is the object on a line of policyText.
func policyObject(line string) object {
	var head struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal([]byte(line), &head); err != nil {
		panic(fmt.Sprintf("policy.jsonl: %v", err)) // a test reads all lines
	}
	o := object{
		resource: rbac(strings.ToLower(head.Kind) + "s"), namespace: head.Metadata.Namespace, name: head.Metadata.Name,
		wanted: json.RawMessage(line), correct: correctRole(line),
	}
	if strings.HasSuffix(head.Kind, "Binding") {
		o.correct = correctBinding(line)
	}
	return o
}

func rbac(plural string) kinds.GroupResource {
	return kinds.GroupResource{Group: "rbac.authorization.k8s.io", Resource: plural}
}

// NodeRules returns the rules of the ClusterRole system:node: what kubelets may do; by default it is bound to nobody
// (bootstrappolicy NodeRules).
func NodeRules() []rbacv1.PolicyRule {
	for line := range strings.Lines(policyText) {
		var role rbacv1.ClusterRole
		if err := json.Unmarshal([]byte(line), &role); err != nil {
			panic(fmt.Sprintf("policy.jsonl: %v", err)) // a test reads all lines
		}
		if role.Kind == "ClusterRole" && role.Name == "system:node" {
			return role.Rules
		}
	}
	panic("policy.jsonl has no ClusterRole system:node") // a test looks for it
}
