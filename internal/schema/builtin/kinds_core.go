package builtin

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

// all is the category that `kubectl get all` asks for.
const all = "all"

// The rows stand as kube-apiserver 1.37's discovery has them; what is writable in
// which way is from its registry strategies (pkg/registry/*/strategy.go).

func coreKinds() []*schema.Resource {
	return []*schema.Resource{
		kind(row{
			version: "v1", kind: "ConfigMap", short: []string{"cm"},
		}, rules[*corev1.ConfigMap]{object: checkConfigMap, update: keepConfigMap}),
		kind(row{
			version: "v1", kind: "Endpoints", plural: "endpoints", short: []string{"ep"},
			createOnUpdate: true, defaults: defaultEndpoints,
		}, rules[*corev1.Endpoints]{object: checkEndpoints}), //nolint:staticcheck // clients may use EndpointSlice; a server serves both
		kind(row{
			version: "v1", kind: "Event", short: []string{"ev"}, createOnUpdate: true,
			fields: eventFields(),
		}, rules[*corev1.Event]{object: checkEvent}),
		kind(row{
			version: "v1", kind: "LimitRange", short: []string{"limits"},
			createOnUpdate: true, defaults: defaultLimitRange,
		}, rules[*corev1.LimitRange]{}),
		kind(row{
			version: "v1", kind: "Namespace", short: []string{"ns"}, cluster: true, status: true,
			noDeleteCollection: true, name: schema.LabelName, defaults: defaultNamespace,
			fields: []kube.FieldPath{at("status.phase")},
		}, rules[*corev1.Namespace]{}),
		kind(row{
			version: "v1", kind: "Node", short: []string{"no"}, cluster: true, status: true, statusOnCreate: true,
			defaults: defaultNode, fields: []kube.FieldPath{or("spec.unschedulable", "false")},
		}, rules[*corev1.Node]{}),
		kind(row{
			version: "v1", kind: "Pod", short: []string{"po"}, categories: []string{all}, status: true,
			returnDeleted: true, grace: 30 * time.Second, defaults: defaultPod, fields: podFields(),
		}, rules[*corev1.Pod]{object: checkPod, update: keepPod}),
		kind(row{
			version: "v1", kind: "PodTemplate", createOnUpdate: true, returnDeleted: true,
			defaults: func(o tree) { defaultPodTemplate(child(o, "template")) },
		}, rules[*corev1.PodTemplate]{object: checkPodTemplate}),
		kind(row{
			version: "v1", kind: "ReplicationController", short: []string{"rc"}, categories: []string{all}, status: true,
			scale:    &schema.ScalePaths{SpecReplicas: specReplicas(), StatusReplicas: statusReplicas()},
			defaults: defaultReplicationController, fields: []kube.FieldPath{or("status.replicas", "0")},
		}, rules[*corev1.ReplicationController]{object: checkReplicationController}),
		kind(row{
			version: "v1", kind: "ResourceQuota", short: []string{"quota"}, status: true, returnDeleted: true,
		}, rules[*corev1.ResourceQuota]{object: checkResourceQuota}),
		kind(row{
			version: "v1", kind: "Secret", defaults: defaultSecret, fields: []kube.FieldPath{at("type")},
		}, rules[*corev1.Secret]{object: checkSecret, update: keepSecret}),
		kind(row{
			version: "v1", kind: "Service", short: []string{"svc"}, categories: []string{all}, status: true,
			createOnUpdate: true, returnDeleted: true, name: schema.ServiceName, defaults: defaultService,
			fields: []kube.FieldPath{at("spec.clusterIP"), at("spec.type")},
		}, rules[*corev1.Service]{object: checkService, update: keepService}),
		kind(row{
			version: "v1", kind: "ServiceAccount", short: []string{"sa"}, returnDeleted: true,
		}, rules[*corev1.ServiceAccount]{}),
	}
}

func eventFields() []kube.FieldPath {
	return []kube.FieldPath{
		at("involvedObject.kind"), at("involvedObject.namespace"), at("involvedObject.name"), at("involvedObject.uid"),
		at("involvedObject.apiVersion"), at("involvedObject.resourceVersion"), at("involvedObject.fieldPath"),
		at("reason"), at("reportingComponent"),
		{Label: "source", Path: []string{"source", "component"}},
		at("type"),
	}
}

func podFields() []kube.FieldPath {
	return []kube.FieldPath{
		at("spec.nodeName"), at("spec.restartPolicy"), at("spec.schedulerName"), at("spec.serviceAccountName"),
		or("spec.hostNetwork", "false"), at("status.phase"), at("status.podIP"), at("status.nominatedNodeName"),
	}
}

func specReplicas() []string   { return []string{"spec", "replicas"} }
func statusReplicas() []string { return []string{"status", "replicas"} }

// scale is the scale subresource of the kinds of the group apps.
func scale() *schema.ScalePaths {
	return &schema.ScalePaths{
		SpecReplicas: specReplicas(), StatusReplicas: statusReplicas(), Selector: []string{"spec", "selector"},
	}
}
