// Package core has the kinds of the core group: pods, services, nodes, namespaces and others.
package core

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/gokind"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/table"
	"github.com/gapless-io/gapless/internal/wire"
)

// Kinds returns the kinds of the group.
//
// The rows here and in the other groups are those of kube-apiserver 1.37's discovery; what can be
// written, and how, is from its registry strategies (pkg/registry/*/strategy.go: PrepareForCreate and
// PrepareForUpdate). Nodes, services, namespaces, volumes, claims and quotas have no generation
// upstream, though they have a spec.
func Kinds() []*kinds.Resource {
	pods := podKinds()
	return slices.Concat(pods, dataKinds(), clusterKinds(), serviceKinds(), volumeKinds(), []*kinds.Resource{binding(pods[0])})
}

// podKinds are pods, which are the first, and what makes pods.
func podKinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Pod", Short: []string{"po"}, Categories: []string{gokind.All}, Status: true,
			ReturnDeleted: true, Grace: 30 * time.Second, Defaults: defaultPod, Fields: podFields(), Subresources: ofPods(),
			Aliases:  map[string]string{"spec.host": "spec.nodeName", "status.podIPs": ""},
			Complete: completePod, Generation: kinds.GenerationOfSpec, StatusKeeps: []string{"ownerReferences"},
			Emptied: emptiedOfPods(), Table: podTable(),
		}, gokind.Rules[*corev1.Pod]{
			Object: validatePod, Create: validateNewPod, Update: validatePodUpdate, Status: validatePodStatus, Warn: warnPod,
			WarnStatus: warnPodStatus,
		}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "PodTemplate", ReturnDeleted: true,
			Defaults: defaultPodTemplate,
			Complete: completePodTemplate, Generation: kinds.GenerationOfContent, Table: podTemplateTable(),
		}, gokind.Rules[*corev1.PodTemplate]{Object: validatePodTemplate, Warn: warnPodTemplate}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "ReplicationController", Short: []string{"rc"}, Categories: []string{gokind.All}, Status: true,
			Scale:    podspec.Scale(),
			Defaults: defaultReplicationController, Fields: []wire.FieldPath{gokind.Or("status.replicas", "0")},
			Complete: podspec.CompleteTemplate, Generation: kinds.GenerationOfSpec, OrphansByDefault: true,
			Table: replicationControllerTable(),
		}, gokind.Rules[*corev1.ReplicationController]{
			Object: validateReplicationController, Warn: warnReplicationController,
		}),
	}
}

// dataKinds are what pods are given.
func dataKinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "ConfigMap", Short: []string{"cm"},
			Table: configMapTable(),
		}, gokind.Rules[*corev1.ConfigMap]{Object: validateConfigMap, Update: validateConfigMapUpdate}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Secret", Defaults: defaultSecret, Fields: []wire.FieldPath{gokind.At("type")},
			Table: secretTable(),
		}, gokind.Rules[*corev1.Secret]{Object: validateSecret, Update: validateSecretUpdate, Warn: warnSecret}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "ServiceAccount", Short: []string{"sa"}, ReturnDeleted: true, Subresources: ofServiceAccounts(),
			Complete: completeServiceAccount, Table: serviceAccountTable(),
		}, gokind.Rules[*corev1.ServiceAccount]{Warn: warnServiceAccount}),
	}
}

// clusterKinds are about a cluster and its namespaces.
func clusterKinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Namespace", Short: []string{"ns"}, Cluster: true, Status: true,
			NoDeleteCollection: true, Name: kinds.LabelName, Defaults: defaultNamespace,
			Fields: []wire.FieldPath{gokind.At("status.phase")}, Keeps: []string{"spec"}, KeepsManaged: true, // its finalizers
			Subresources: []kinds.Subresource{{
				Name: "finalize", Verbs: []string{"update"}, Apply: finalize,
				Kind: kinds.GroupVersionKind{Version: "v1", Kind: "Namespace"},
			}},
			Complete: completeNamespace, Table: namespaceTable(),
		}, gokind.Rules[*corev1.Namespace]{Object: validateNamespace, Status: validateNamespaceStatus}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Node", Short: []string{"no"}, Cluster: true, Status: true, StatusOnCreate: true,
			Defaults: defaultNode, Fields: []wire.FieldPath{gokind.Or("spec.unschedulable", "false")},
			Complete: completeNode, Table: nodeTable(),
		}, gokind.Rules[*corev1.Node]{Object: validateNode, Update: validateNodeUpdate, Warn: warnNode}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Event", Short: []string{"ev"}, CreateOnUpdate: true,
			Name: kinds.SegmentName, Fields: eventFields(),
			AnyFinalizers: true, NoDependents: true, Table: eventTable(),
		}, gokind.Rules[*corev1.Event]{Object: validateEvent}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "LimitRange", Short: []string{"limits"},
			CreateOnUpdate: true, Defaults: defaultLimitRange,
			NameByUID: true, Table: table.Created(),
		}, gokind.Rules[*corev1.LimitRange]{Object: validateLimitRange}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "ResourceQuota", Short: []string{"quota"}, Status: true, ReturnDeleted: true,
			Defaults: defaultQuota,
			Table:    quotaTable(),
		}, gokind.Rules[*corev1.ResourceQuota]{
			Object: validateResourceQuota, Update: validateResourceQuotaUpdate, Status: validateResourceQuotaStatus,
			Warn: warnResourceQuota,
		}),
	}
}

// serviceKinds are how pods are reached.
func serviceKinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Service", Short: []string{"svc"}, Categories: []string{gokind.All}, Status: true,
			CreateOnUpdate: true, ReturnDeleted: true, Name: kinds.LabelName, Defaults: defaultService,
			Fields:   []wire.FieldPath{gokind.At("spec.clusterIP"), gokind.At("spec.type")},
			Complete: completeService, Table: serviceTable(),
		}, gokind.Rules[*corev1.Service]{
			First: ValidateClusterIPs, Object: validateService, Create: validateNewService, Update: validateServiceUpdate,
			Status: validateServiceStatus,
			Warn:   warnService, WarnStatus: warnServiceStatus,
		}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "Endpoints", Plural: "endpoints", Short: []string{"ep"},
			CreateOnUpdate: true, Defaults: defaultEndpoints,
			Table: endpointsTable(),
		}, gokind.Rules[*corev1.Endpoints]{ //nolint:staticcheck // clients may use EndpointSlice; a server serves both
			Create: validateNewEndpoints, Update: validateEndpointsUpdate, Warn: warnEndpoints,
		}),
	}
}

// volumeKinds are volumes, and claims of them.
func volumeKinds() []*kinds.Resource {
	return []*kinds.Resource{
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "PersistentVolume", Short: []string{"pv"}, Cluster: true, Status: true,
			ReturnDeleted: true, Defaults: defaultVolume,
			Complete: completeVolume, Table: volumeTable(),
		}, gokind.Rules[*corev1.PersistentVolume]{
			Object: validatePersistentVolume, Update: validatePersistentVolumeUpdate, Warn: warnPersistentVolume,
		}),
		gokind.Of(gokind.Row{
			Version: "v1", Kind: "PersistentVolumeClaim", Short: []string{"pvc"}, Status: true,
			ReturnDeleted: true, Defaults: podspec.DefaultClaim,
			Complete: completeClaim, Table: claimTable(),
		}, gokind.Rules[*corev1.PersistentVolumeClaim]{
			Object: validatePersistentVolumeClaim, Update: validatePersistentVolumeClaimUpdate, Status: validateClaimStatus,
			Warn: warnPersistentVolumeClaim,
		}),
	}
}

func eventFields() []wire.FieldPath {
	return []wire.FieldPath{
		gokind.At("involvedObject.kind"), gokind.At("involvedObject.namespace"), gokind.At("involvedObject.name"),
		gokind.At("involvedObject.uid"), gokind.At("involvedObject.apiVersion"), gokind.At("involvedObject.resourceVersion"),
		gokind.At("involvedObject.fieldPath"), gokind.At("reason"), gokind.At("reportingComponent"),
		{Label: "source", Path: []string{"source", "component"}},
		gokind.At("type"),
	}
}

func podFields() []wire.FieldPath {
	return []wire.FieldPath{
		gokind.At("spec.nodeName"), gokind.At("spec.restartPolicy"), gokind.At("spec.schedulerName"),
		gokind.At("spec.serviceAccountName"), gokind.Or("spec.hostNetwork", "false"),
		gokind.At("status.phase"), gokind.At("status.podIP"), gokind.At("status.nominatedNodeName"),
	}
}
