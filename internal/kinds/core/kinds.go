package builtin

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/parts"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation/pods"
	"github.com/gapless-io/gapless/internal/kinds/builtin/warnings"
	"github.com/gapless-io/gapless/internal/wire"
)

// all is the category that `kubectl get all` asks for.
const all = "all"

// The rows are those of kube-apiserver 1.37's discovery; what can be written, and how, is
// from its registry strategies (pkg/registry/*/strategy.go).

func coreKinds() []*kinds.Resource {
	return []*kinds.Resource{
		kind(row{
			version: "v1", kind: "ConfigMap", short: []string{"cm"},
		}, rules[*corev1.ConfigMap]{object: validation.ConfigMap, update: validation.ConfigMapUpdate}),
		kind(row{
			version: "v1", kind: "Endpoints", plural: "endpoints", short: []string{"ep"},
			createOnUpdate: true, defaults: defaults.Endpoints,
		}, rules[*corev1.Endpoints]{create: validation.NewEndpoints, update: validation.EndpointsUpdate, warn: warnings.Endpoints}), //nolint:staticcheck // clients may use EndpointSlice; a server serves both
		kind(row{
			version: "v1", kind: "Event", short: []string{"ev"}, createOnUpdate: true,
			name: kinds.SegmentName, fields: eventFields(),
		}, rules[*corev1.Event]{object: validation.Event}),
		kind(row{
			version: "v1", kind: "LimitRange", short: []string{"limits"},
			createOnUpdate: true, defaults: defaults.LimitRange,
		}, rules[*corev1.LimitRange]{object: validation.LimitRange}),
		kind(row{
			version: "v1", kind: "Namespace", short: []string{"ns"}, cluster: true, status: true,
			noDeleteCollection: true, name: kinds.LabelName, defaults: defaults.Namespace,
			fields: []wire.FieldPath{at("status.phase")}, keeps: []string{"spec"}, // its finalizers
			subresources: []kinds.Subresource{{
				Name: "finalize", Verbs: []string{"update"}, Apply: parts.Finalize,
				Kind: kinds.GroupVersionKind{Version: "v1", Kind: "Namespace"},
			}},
		}, rules[*corev1.Namespace]{status: validation.NamespaceStatus}),
		kind(row{
			version: "v1", kind: "Node", short: []string{"no"}, cluster: true, status: true, statusOnCreate: true,
			defaults: defaults.Node, fields: []wire.FieldPath{or("spec.unschedulable", "false")},
		}, rules[*corev1.Node]{object: validation.Node, update: validation.NodeUpdate, warn: warnings.Node}),
		kind(row{
			version: "v1", kind: "Pod", short: []string{"po"}, categories: []string{all}, status: true,
			returnDeleted: true, grace: 30 * time.Second, defaults: defaults.Pod, fields: podFields(), subresources: ofPods(),
			aliases: map[string]string{"spec.host": "spec.nodeName", "status.podIPs": ""},
		}, rules[*corev1.Pod]{
			object: pods.Pod, create: pods.NewPod, update: pods.PodUpdate, status: pods.PodStatus, warn: warnings.Pod, warnStatus: warnings.PodStatus,
		}),
		kind(row{
			version: "v1", kind: "PodTemplate", returnDeleted: true,
			defaults: defaults.PodTemplate,
		}, rules[*corev1.PodTemplate]{object: pods.PodTemplate, warn: warnings.PodTemplate}),
		kind(row{
			version: "v1", kind: "ReplicationController", short: []string{"rc"}, categories: []string{all}, status: true,
			scale:    scale(),
			defaults: defaults.ReplicationController, fields: []wire.FieldPath{or("status.replicas", "0")},
		}, rules[*corev1.ReplicationController]{object: validation.ReplicationController, warn: warnings.ReplicationController}),
		kind(row{
			version: "v1", kind: "ResourceQuota", short: []string{"quota"}, status: true, returnDeleted: true,
		}, rules[*corev1.ResourceQuota]{object: validation.ResourceQuota, warn: warnings.ResourceQuota}),
		kind(row{
			version: "v1", kind: "Secret", defaults: defaults.Secret, fields: []wire.FieldPath{at("type")},
		}, rules[*corev1.Secret]{object: validation.Secret, update: validation.SecretUpdate, warn: warnings.Secret}),
		kind(row{
			version: "v1", kind: "Service", short: []string{"svc"}, categories: []string{all}, status: true,
			createOnUpdate: true, returnDeleted: true, name: kinds.LabelName, defaults: defaults.Service,
			fields: []wire.FieldPath{at("spec.clusterIP"), at("spec.type")},
		}, rules[*corev1.Service]{
			object: validation.Service, create: validation.NewService, update: validation.ServiceUpdate, status: validation.ServiceStatus,
			warn: warnings.Service, warnStatus: warnings.ServiceStatus,
		}),
		kind(row{
			version: "v1", kind: "ServiceAccount", short: []string{"sa"}, returnDeleted: true, subresources: ofServiceAccounts(),
		}, rules[*corev1.ServiceAccount]{warn: warnings.ServiceAccount}),
	}
}

func eventFields() []wire.FieldPath {
	return []wire.FieldPath{
		at("involvedObject.kind"), at("involvedObject.namespace"), at("involvedObject.name"), at("involvedObject.uid"),
		at("involvedObject.apiVersion"), at("involvedObject.resourceVersion"), at("involvedObject.fieldPath"),
		at("reason"), at("reportingComponent"),
		{Label: "source", Path: []string{"source", "component"}},
		at("type"),
	}
}

func podFields() []wire.FieldPath {
	return []wire.FieldPath{
		at("spec.nodeName"), at("spec.restartPolicy"), at("spec.schedulerName"), at("spec.serviceAccountName"),
		or("spec.hostNetwork", "false"), at("status.phase"), at("status.podIP"), at("status.nominatedNodeName"),
	}
}

func specReplicas() []string   { return []string{"spec", "replicas"} }
func statusReplicas() []string { return []string{"status", "replicas"} }

// scale is the scale subresource of the kinds of the group apps, and of replication
// controllers, whose selector is labels.
func scale() *kinds.ScalePaths {
	return &kinds.ScalePaths{
		SpecReplicas: specReplicas(), StatusReplicas: statusReplicas(), Selector: []string{"spec", "selector"},
	}
}
