package builtin

import (
	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
)

// The rules of upstream's strategies for metadata, by resource: PrepareForCreate and
// PrepareForUpdate in pkg/registry/*/strategy.go of Kubernetes 1.37.

// generation returns what the generation of a kind counts. Nodes, services, namespaces,
// volumes, claims, quotas and leases have none upstream, though they have a spec.
func generation(gr kinds.GroupResource) kinds.Generation {
	switch gr.String() {
	case "pods", "replicationcontrollers",
		"daemonsets.apps", "replicasets.apps", "statefulsets.apps", "cronjobs.batch", "jobs.batch",
		// Since 1.37 (kubernetes#138228).
		"horizontalpodautoscalers.autoscaling",
		"poddisruptionbudgets.policy", "customresourcedefinitions.apiextensions.k8s.io",
		"deviceclasses.resource.k8s.io", "devicetaintrules.resource.k8s.io", "resourceslices.resource.k8s.io",
		"ingresses.networking.k8s.io", "ingressclasses.networking.k8s.io", "networkpolicies.networking.k8s.io",
		"mutatingadmissionpolicies.admissionregistration.k8s.io", "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
		"validatingadmissionpolicies.admissionregistration.k8s.io", "validatingadmissionpolicybindings.admissionregistration.k8s.io":
		return kinds.GenerationOfSpec
	case "deployments.apps":
		// Its annotations are copied to its replica sets.
		return kinds.GenerationOfSpecAndAnnotations
	case "podtemplates",
		"mutatingwebhookconfigurations.admissionregistration.k8s.io", "validatingwebhookconfigurations.admissionregistration.k8s.io":
		return kinds.GenerationOfContent
	case "endpointslices.discovery.k8s.io":
		return kinds.GenerationOfContentAndLabels
	case "csidrivers.storage.k8s.io":
		return kinds.GenerationOfSpecChanges
	case "priorityclasses.scheduling.k8s.io":
		return kinds.GenerationOne
	}
	return kinds.NoGeneration
}

// dependents returns what a deletion without a propagation policy means for the objects
// that a kind's objects own (DefaultGarbageCollectionPolicy), and the warning about it
// (pkg/registry/batch/job/storage/storage.go deleteOptionWarnings).
func dependents(gr kinds.GroupResource) (orphans, none bool, warning string) {
	switch gr.String() {
	case "replicationcontrollers":
		return true, false, ""
	case "jobs.batch":
		return true, false, "child pods are preserved by default when jobs are deleted; " +
			"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
	case "events", "events.events.k8s.io":
		return false, true, ""
	}
	return false, false, ""
}

// statusKeeps are the members of metadata that a write of the status does not change.
// Definitions keep none: upstream's strategy means to reset them all, but copies the
// new metadata onto themselves (kubernetes#137681).
func statusKeeps(gr kinds.GroupResource) []string {
	switch gr.String() {
	case "pods":
		return []string{"ownerReferences"}
	case "deployments.apps":
		return []string{"labels"}
	case "volumeattachments.storage.k8s.io", "csinodes.storage.k8s.io", "servicecidrs.networking.k8s.io",
		"podcertificaterequests.certificates.k8s.io", "storageversionmigrations.storagemigration.k8s.io",
		"resourceclaims.resource.k8s.io", "devicetaintrules.resource.k8s.io",
		"validatingadmissionpolicies.admissionregistration.k8s.io":
		return []string{"labels", "annotations", "finalizers", "ownerReferences"}
	}
	return nil
}

// complete returns what fills in the parts of a kind's objects that depend on the stored
// object; nil for none.
func complete(gr kinds.GroupResource) func(u, old map[string]any) error {
	switch gr.String() {
	case "deployments.apps", "replicasets.apps", "statefulsets.apps", "replicationcontrollers":
		return defaults.Template
	case "podtemplates":
		return defaults.TemplateOnly
	case "cronjobs.batch":
		return defaults.JobTemplate
	case "leases.coordination.k8s.io":
		return defaults.Lease
	case "nodes":
		return defaults.NodeConfig
	case "serviceaccounts":
		return defaults.SecretNames
	case "daemonsets.apps":
		return defaults.TemplateGeneration
	case "jobs.batch":
		return defaults.JobSelector
	case "persistentvolumeclaims":
		return defaults.DataSources
	case "persistentvolumes":
		return defaults.PhaseTransition
	case "namespaces":
		return defaults.NamespaceFinalizer
	case "endpointslices.discovery.k8s.io":
		return defaults.Topology
	case "pods":
		return defaults.PodStatus
	case "services":
		return defaults.ServiceFields
	case "csinodes.storage.k8s.io":
		return defaults.StorageHealth
	case "devicetaintrules.resource.k8s.io":
		return defaults.TaintEffect
	case "resourceclaims.resource.k8s.io":
		return defaults.ClaimFields
	case "resourceclaimtemplates.resource.k8s.io":
		return defaults.TemplateFields
	case "resourceslices.resource.k8s.io":
		return defaults.SliceFields
	}
	return nil
}
