package mix

import (
	"fmt"
	"strings"
)

// kind is a resource, and how it is written.
type kind struct {
	base, plural, kind string // base is /api/v1 or /apis/…
	short              string // what names begin with
	namespaced         bool
	weight             int
	// followed says that admission plugins follow these objects in a cache.
	followed bool
	// upserts says that a PUT may create one.
	upserts bool
	// make is an object without its name.
	make func(g *generator, at place) object
	// changes is a merge patch, statuses one of the status.
	changes, statuses func(g *generator) object
	// after are lines that follow a creation.
	after func(g *generator, at place, created object) []string
	// subs write subresources.
	subs []func(g *generator, at place)
}

func (k *kind) version() string {
	return strings.TrimPrefix(strings.TrimPrefix(k.base, "/apis/"), "/api/")
}

const core = "/api/v1"

// Collections are the paths of all collections that moves write to, of which namespaced ones are in %s.
func Collections() []string {
	var all []string
	for _, k := range kinds() {
		if k.namespaced {
			all = append(all, k.base+"/namespaces/%s/"+k.plural)
		} else if k.plural != "namespaces" {
			all = append(all, k.base+"/"+k.plural)
		}
	}
	return all
}

// Namespaces are those of a script in which $ns is name.
func Namespaces(name string) []string {
	var all []string
	for i := range namespaces {
		all = append(all, strings.ReplaceAll(namespace(i), "$ns", name))
	}
	return all
}

func kinds() []kind {
	return []kind{
		{
			base: core, plural: "pods", kind: "Pod", short: "p", namespaced: true, weight: 40,
			make: pod, changes: podChange, statuses: podStatus,
			subs: []func(*generator, place){resize, resize, debug, evict, evict, bind},
		},
		{
			base: core, plural: "services", kind: "Service", short: "s", namespaced: true, weight: 24,
			make: service, changes: serviceChange, statuses: serviceStatus,
		},
		{
			base: core, plural: "persistentvolumeclaims", kind: "PersistentVolumeClaim", short: "pvc", namespaced: true,
			weight: 14, followed: true, make: claim, changes: claimChange, statuses: claimStatus,
		},
		{
			base: core, plural: "persistentvolumes", kind: "PersistentVolume", short: "pv", weight: 7, followed: true,
			make: volume, changes: volumeChange, statuses: volumeStatus,
		},
		{
			base: core, plural: "resourcequotas", kind: "ResourceQuota", short: "q", namespaced: true, weight: 7,
			followed: true, make: quota, changes: quotaChange, statuses: quotaStatus, after: quotaCounted,
		},
		{
			base: core, plural: "limitranges", kind: "LimitRange", short: "lr", namespaced: true, weight: 5, followed: true,
			make: limits, changes: limitsChange,
		},
		{
			base: core, plural: "serviceaccounts", kind: "ServiceAccount", short: "sa", namespaced: true, weight: 4,
			followed: true, make: account, changes: accountChange, subs: []func(*generator, place){tokens},
		},
		{
			base: core, plural: "namespaces", kind: "Namespace", short: "other", weight: 4, followed: true,
			make: anotherNamespace, changes: namespaceChange, subs: []func(*generator, place){
				relabel, relabel,
				relabel, finalize,
			},
		},
		{
			base: core, plural: "configmaps", kind: "ConfigMap", short: "cm", namespaced: true, weight: 3,
			make: data, changes: dataChange,
		},
		{
			base: core, plural: "secrets", kind: "Secret", short: "se", namespaced: true, weight: 3,
			make: secret, changes: secretChange,
		},
		{
			base: core, plural: "events", kind: "Event", short: "ev", namespaced: true, weight: 2, upserts: true,
			make:    event,
			changes: eventChange,
		},
		{
			base: core, plural: "nodes", kind: "Node", short: "node", weight: 2, followed: true, make: node,
			changes: nodeChange, statuses: nodeStatus,
		},
		{
			base: core, plural: "endpoints", kind: "Endpoints", short: "ep", namespaced: true, weight: 1, upserts: true,
			make: endpoints, changes: endpointsChange,
		},
		{
			base: core, plural: "replicationcontrollers", kind: "ReplicationController", short: "rc",
			namespaced: true, weight: 2,
			make: controller, changes: controllerChange, statuses: controllerStatus, subs: []func(*generator, place){scale},
		},
		{
			base: "/apis/storage.k8s.io/v1", plural: "storageclasses", kind: "StorageClass", short: "sc", weight: 5,
			followed: true, make: storageClass, changes: storageClassChange,
		},
		{
			base: "/apis/storage.k8s.io/v1", plural: "volumeattachments", kind: "VolumeAttachment", short: "va", weight: 1,
			make: attachment, changes: attachmentChange, statuses: attachmentStatus,
		},
		{
			base: "/apis/scheduling.k8s.io/v1", plural: "priorityclasses", kind: "PriorityClass", short: "pc", weight: 4,
			followed: true, make: priorityClass, changes: priorityClassChange,
		},
		{
			base: "/apis/node.k8s.io/v1", plural: "runtimeclasses", kind: "RuntimeClass", short: "rt", weight: 4,
			followed: true, make: runtimeClass, changes: runtimeClassChange,
		},
		{
			base: "/apis/networking.k8s.io/v1", plural: "ingressclasses", kind: "IngressClass", short: "ic", weight: 3,
			followed: true, make: ingressClass, changes: ingressClassChange,
		},
		{
			base: "/apis/networking.k8s.io/v1", plural: "ingresses", kind: "Ingress", short: "in", namespaced: true,
			weight: 4,
			make:   ingress, changes: ingressChange, statuses: ingressStatus,
		},
		{
			base: "/apis/networking.k8s.io/v1", plural: "networkpolicies", kind: "NetworkPolicy", short: "np",
			namespaced: true,
			weight:     1, make: networkPolicy, changes: networkPolicyChange,
		},
		{
			base: "/apis/policy/v1", plural: "poddisruptionbudgets", kind: "PodDisruptionBudget", short: "pdb",
			namespaced: true, weight: 3, followed: true, make: budget, changes: budgetChange, statuses: budgetStatus,
		},
		{
			base: "/apis/coordination.k8s.io/v1", plural: "leases", kind: "Lease", short: "le", namespaced: true, weight: 2,
			upserts: true, make: lease, changes: leaseChange,
		},
		{
			base: "/apis/apps/v1", plural: "deployments", kind: "Deployment", short: "d", namespaced: true, weight: 3,
			make: deployment, changes: deploymentChange, statuses: controllerStatus, subs: []func(*generator, place){scale},
		},
		{
			base: "/apis/batch/v1", plural: "jobs", kind: "Job", short: "j", namespaced: true, weight: 2,
			make: job, changes: jobChange,
		},
		{
			base: rbac, plural: "roles", kind: "Role", short: "ro", namespaced: true, weight: 2, make: role,
			changes: roleChange,
		},
		{
			base: rbac, plural: "rolebindings", kind: "RoleBinding", short: "rb", namespaced: true, weight: 2,
			make:    binding,
			changes: bindingChange,
		},
		{
			base: rbac, plural: "clusterroles", kind: "ClusterRole", short: "cr", weight: 2, make: clusterRole,
			changes: roleChange,
		},
		{
			base: rbac, plural: "clusterrolebindings", kind: "ClusterRoleBinding", short: "cb", weight: 1, make: binding,
			changes: bindingChange,
		},
	}
}

const rbac = "/apis/rbac.authorization.k8s.io/v1"

func scale(g *generator, at place) {
	path := at.path() + "/scale"
	if g.chance(30) {
		g.add(at.of("GET", "scale"), request("GET", path, nil)...)
		return
	}
	body := object{"spec": object{"replicas": g.pick(0, 1, 3, -1, 1000000, "x")}}
	if g.chance(30) {
		kept := fmt.Sprintf("obj%d", g.kept%keeps)
		g.kept++
		lines := append(request("GET", path, nil), "edit "+kept+" "+encode(body))
		g.add(at.of("PUT", "scale"), append(lines, request("PUT", path, "$"+kept)...)...)
		return
	}
	g.add(at.of("PATCH", "scale"), request("PATCH", path, body, "Content-Type: "+mergeType)...)
}
