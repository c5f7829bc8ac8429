// Package nodes decides what kubelets may do, as Kubernetes' Node authorizer does (plugin/pkg/auth/authorizer/node).
//
// A kubelet, which is a user system:node:NAME of the group system:nodes, may read what the pods of its node need: their
// secrets, ConfigMaps, claims, volumes and service accounts, and write what concerns its node. An [Authorizer] follows
// pods and volumes. It decides from an index by node, which is made when a node first asks and which each change of one
// of its pods changes: a decision costs the same for one pod and for 100 000. What does not need pods is looked up.
//
// Users who are no kubelets are none of its business: they get no opinion. What a kubelet may create or change is
// looked at by the admission plugin NodeRestriction, which sees the objects (admission/plugins/nodes).
package nodes

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/gapless-io/gapless/internal/auth"
	"github.com/gapless-io/gapless/internal/auth/rbac/rules"
	"github.com/gapless-io/gapless/internal/wire"
)

// Cluster reads objects from memory.
type Cluster interface {
	// Find returns an object in the version in which it is stored; nil when there is none, or it cannot be read.
	Find(gr schema.GroupResource, key wire.Key) *wire.Object
}

// Authorizer decides for kubelets. It is safe for concurrent use.
type Authorizer struct {
	cluster Cluster
	rules   []rbacv1.PolicyRule
	graph   *graph
}

var _ auth.Authorizer = (*Authorizer)(nil)

// New returns an Authorizer; rules are those of the ClusterRole system:node, for what is not looked at more closely. The
// cluster is read by decisions only.
func New(cluster Cluster, rules []rbacv1.PolicyRule) *Authorizer {
	return &Authorizer{cluster: cluster, rules: rules, graph: newGraph()}
}

// The resources about which an Authorizer decides by what is stored, or by names.
//
//nolint:gochecknoglobals // constants
var (
	pods         = schema.GroupResource{Resource: "pods"}
	nodes        = schema.GroupResource{Resource: "nodes"}
	secrets      = schema.GroupResource{Resource: "secrets"}
	configMaps   = schema.GroupResource{Resource: "configmaps"}
	accounts     = schema.GroupResource{Resource: "serviceaccounts"}
	claims       = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes      = schema.GroupResource{Resource: "persistentvolumes"}
	devices      = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}
	slicesOf     = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	attachments  = schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}
	drivers      = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	leases       = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	certificates = schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}
)

// leaseNamespace has the Leases of nodes.
const leaseNamespace = "kube-node-lease"

// Authorize implements auth.Authorizer.
func (a *Authorizer) Authorize(ctx context.Context, u user.Info, wanted auth.Attributes) error {
	return a.Decide(ctx, u, wanted).Err(u, wanted)
}

// Rules implements auth.Authorizer: what a kubelet may do is not listed.
func (*Authorizer) Rules(_ context.Context, u user.Info, _ string) (auth.Rules, error) {
	if _, is := auth.NodeOf(u); is {
		return auth.Rules{Incomplete: true}, auth.ErrNoRules
	}
	return auth.Rules{}, nil
}

// no has no opinion, for a reason.
func no(format string, values ...any) auth.Decision {
	return auth.Decision{Reason: func() string { return fmt.Sprintf(format, values...) }}
}

// Decide implements auth.Authorizer.
func (a *Authorizer) Decide(_ context.Context, u user.Info, wanted auth.Attributes) auth.Decision {
	node, is := auth.NodeOf(u)
	switch {
	case !is:
		return auth.Decision{}
	case node == "":
		return no("unknown node for user %q", u.GetName())
	case wanted.Path == "":
		if d, special := a.special(node, &wanted); special {
			return d
		}
	}
	allowed := slices.ContainsFunc(a.rules, func(r rbacv1.PolicyRule) bool { return rules.Allows(&r, &wanted) })
	return auth.Decision{Allowed: allowed}
}

// special decides about the resources that are looked at more closely; false: it is none of them.
func (a *Authorizer) special(node string, w *auth.Attributes) (d auth.Decision, is bool) {
	switch w.Resource {
	case secrets, configMaps:
		return a.read(node, w), true
	case claims:
		if w.Subresource == "status" {
			if w.Verb != "update" && w.Verb != "patch" {
				return no("can only get/update/patch this type"), true
			}
			return a.related(node, w), true
		}
		return a.get(node, w), true
	case volumes, devices, attachments:
		return a.get(node, w), true
	case accounts:
		return a.account(node, w), true
	case leases:
		return lease(node, w), true
	case drivers:
		return driver(node, w), true
	case slicesOf:
		return a.slice(node, w), true
	case nodes:
		return ownNode(node, w), true
	case pods:
		return a.pod(node, w), true
	case certificates:
		return a.certificate(node, w), true
	}
	return auth.Decision{}, false
}

// related allows what is about an object that the node needs.
func (a *Authorizer) related(node string, w *auth.Attributes) auth.Decision {
	if w.Name == "" {
		return no("No Object name found")
	}
	if !a.needs(node, w.Resource, wire.Key{Namespace: w.Namespace, Name: w.Name}) {
		return no("no relationship found between node '%s' and this object", node)
	}
	return auth.Decision{Allowed: true}
}

func (a *Authorizer) get(node string, w *auth.Attributes) auth.Decision {
	switch {
	case w.Verb != "get":
		return no("can only get individual resources of this type")
	case w.Subresource != "":
		return no("cannot get subresource")
	}
	return a.related(node, w)
}

func (a *Authorizer) read(node string, w *auth.Attributes) auth.Decision {
	switch {
	case !slices.Contains([]string{"get", "list", "watch"}, w.Verb):
		return no("can only read resources of this type")
	case w.Subresource != "":
		return no("cannot read subresource")
	case w.Namespace == "":
		return no("can only read namespaced object of this type")
	}
	return a.related(node, w)
}

func (a *Authorizer) account(node string, w *auth.Attributes) auth.Decision {
	switch {
	case w.Verb == "get" && w.Subresource == "":
		return a.read(node, w)
	case w.Verb != "create" || w.Name == "":
		return no("can only create tokens for individual service accounts")
	case w.Subresource != "token":
		return no("can only create token subresource of serviceaccount")
	}
	return a.related(node, w)
}

// ownVerbs are those that a kubelet may use on what has the name of its node.
var ownVerbs = []string{"get", "create", "update", "patch", "delete"} //nolint:gochecknoglobals // a constant

func lease(node string, w *auth.Attributes) auth.Decision {
	switch {
	case !slices.Contains(ownVerbs, w.Verb):
		return no("can only get, create, update, patch, or delete a node lease")
	case w.Namespace != leaseNamespace:
		return no("can only access leases in the %q system namespace", leaseNamespace)
	case w.Verb != "create" && w.Name != node: // a creation has no name yet: NodeRestriction looks at it
		return no("can only access node lease with the same name as the requesting node")
	}
	return auth.Decision{Allowed: true}
}

func driver(node string, w *auth.Attributes) auth.Decision {
	switch {
	case w.Subresource == "status":
		return no("CSINode status access requires CSIVolumeHealth feature") // which is off by default
	case w.Subresource != "":
		return no("cannot authorize CSINode subresources")
	case !slices.Contains(ownVerbs, w.Verb):
		return no("can only get, create, update, patch, or delete a CSINode")
	case w.Verb != "create" && w.Name != node:
		return no("can only access CSINode with the same name as the requesting node")
	}
	return auth.Decision{Allowed: true}
}

func (a *Authorizer) slice(node string, w *auth.Attributes) auth.Decision {
	if w.Subresource != "" {
		return no("cannot authorize ResourceSlice subresources")
	}
	switch w.Verb {
	case "create": // NodeRestriction looks at it
		return auth.Decision{Allowed: true}
	case "get", "update", "patch", "delete":
		return a.related(node, w)
	case "watch", "list", "deletecollection":
		if selects(w, node) {
			return auth.Decision{Allowed: true}
		}
		return no("can only list/watch/deletecollection resourceslices with nodeName field selector")
	}
	return no("only the following verbs are allowed for a ResourceSlice: " +
		"get, watch, list, create, update, patch, delete, deletecollection")
}

func (a *Authorizer) certificate(node string, w *auth.Attributes) auth.Decision {
	if w.Subresource != "" {
		return no("nodes may not access the status subresource of PodCertificateRequests")
	}
	switch w.Verb {
	case "create": // NodeRestriction looks at it
		return auth.Decision{Allowed: true}
	case "get":
		return a.related(node, w)
	case "list", "watch":
		if selects(w, node) {
			return auth.Decision{Allowed: true}
		}
		return no("can only list/watch podcertificaterequests with nodeName field selector")
	}
	return no("nodes may not %s podcertificaterequests", w.Verb)
}

func ownNode(node string, w *auth.Attributes) auth.Decision {
	switch w.Subresource {
	case "":
		switch w.Verb {
		case "create", "update", "patch": // NodeRestriction looks at whose it is
			return auth.Decision{Allowed: true}
		case "get", "list", "watch":
			switch w.Name {
			case node: // also before it exists
				return auth.Decision{Allowed: true}
			case "":
				return no("node '%s' cannot read all nodes, only its own Node object", node)
			}
			return no("node '%s' cannot read '%s', only its own Node object", node, w.Name)
		}
	case "status":
		return auth.Decision{Allowed: w.Verb == "update" || w.Verb == "patch"}
	}
	return auth.Decision{}
}

func (a *Authorizer) pod(node string, w *auth.Attributes) auth.Decision {
	switch w.Subresource {
	case "":
		switch w.Verb {
		case "get":
			return a.related(node, w)
		case "list", "watch":
			if selects(w, node) {
				return auth.Decision{Allowed: true}
			}
			if w.Name != "" {
				return a.related(node, w)
			}
			return no("can only list/watch pods with spec.nodeName field selector")
		}
		// Mirror pods: NodeRestriction looks at them.
		return auth.Decision{Allowed: w.Verb == "create" || w.Verb == "delete"}
	case "status":
		return auth.Decision{Allowed: w.Verb == "update" || w.Verb == "patch"}
	case "eviction":
		return auth.Decision{Allowed: w.Verb == "create"}
	}
	return auth.Decision{}
}

// selects reports whether a list or watch is of what is on the node only.
func selects(w *auth.Attributes, node string) bool {
	if w.FieldSelector == "" {
		return false
	}
	selector, err := fields.ParseSelector(w.FieldSelector)
	if err != nil {
		return false // the verb refuses it
	}
	return slices.ContainsFunc(selector.Requirements(), func(r fields.Requirement) bool {
		return r.Field == nodeName && r.Operator == selection.Equals && r.Value == node
	})
}
