package kinds

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/version"
)

// compareResources orders by group, then by version priority (v1 before v1beta1,
// v2 before v1), then by plural.
func compareResources(a, b *Resource) int {
	switch {
	case a.Group == b.Group:
	case a.Group == "": // its document is not among those of the others
		return -1
	case b.Group == "":
		return 1
	default:
		return cmp.Or(cmp.Compare(groupPriority(b.Group), groupPriority(a.Group)), strings.Compare(a.Group, b.Group))
	}
	if a.Version != b.Version {
		return -cmp.Compare(version.CompareKubeAwareVersionStrings(a.Version, b.Version), 0)
	}
	return strings.Compare(a.Plural, b.Plural)
}

// groupPriority is how early a group is in discovery. Clients take the first of several
// groups that have a resource of the same name. The numbers are upstream's
// (cmd/kube-apiserver/app/aggregator.go and pkg/controlplane/apiserver/aggregator.go
// of Kubernetes 1.37; crdregistration_controller.go for the groups of definitions).
func groupPriority(group string) int32 {
	switch group {
	case "apiregistration.k8s.io":
		return 20001 // before all others: kube-aggregator pkg/apiserver/handler_discovery.go
	case "":
		return 18000
	case "apps":
		return 17800
	case "events.k8s.io":
		return 17750
	case "authentication.k8s.io":
		return 17700
	case "authorization.k8s.io":
		return 17600
	case "autoscaling":
		return 17500
	case "batch":
		return 17400
	case "certificates.k8s.io":
		return 17300
	case "networking.k8s.io":
		return 17200
	case "policy":
		return 17100
	case "rbac.authorization.k8s.io":
		return 17000
	case "storage.k8s.io":
		return 16800
	case "admissionregistration.k8s.io", "apiextensions.k8s.io":
		return 16700
	case "scheduling.k8s.io":
		return 16600
	case "coordination.k8s.io":
		return 16500
	case "node.k8s.io":
		return 16300
	case "discovery.k8s.io", "resource.k8s.io":
		return 16200
	case "flowcontrol.apiserver.k8s.io":
		return 16100
	case "storagemigration.k8s.io":
		return 15800
	}
	return 1000
}

// Priority returns how early a group is in discovery, and a version in its group: more is earlier. It is what the
// APIService of a version that this server serves says.
func (v GroupVersion) Priority() (group, version int32) {
	if v.Resources[0].Custom {
		return CustomPriority()
	}
	const usual = 15
	switch v.Group + "/" + v.Version {
	case "/v1":
		version = 1
	case "autoscaling/v2":
		version = 30
	case "resource.k8s.io/v1":
		version = 21
	default:
		version = usual
	}
	return groupPriority(v.Group), version
}

// CustomPriority is Priority of versions of custom resources (kubernetes pkg/controlplane/controller/crdregistration).
func CustomPriority() (group, version int32) { return 1000, 100 }
