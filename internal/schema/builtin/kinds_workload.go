package builtin

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/gapless-io/gapless/internal/schema"
	"github.com/gapless-io/gapless/kube"
)

func appsKinds() []*schema.Resource {
	const group = "apps"
	return []*schema.Resource{
		kind(row{
			group: group, version: "v1", kind: "ControllerRevision",
		}, rules[*appsv1.ControllerRevision]{object: checkControllerRevision, update: keepControllerRevision}),
		kind(row{
			group: group, version: "v1", kind: "DaemonSet", short: []string{"ds"}, categories: []string{all},
			status: true, defaults: defaultDaemonSet,
		}, rules[*appsv1.DaemonSet]{object: checkDaemonSet, update: keepDaemonSet}),
		kind(row{
			group: group, version: "v1", kind: "Deployment", short: []string{"deploy"}, categories: []string{all},
			status: true, scale: scale(), defaults: defaultDeployment,
		}, rules[*appsv1.Deployment]{object: checkDeployment, update: keepDeployment}),
		kind(row{
			group: group, version: "v1", kind: "ReplicaSet", short: []string{"rs"}, categories: []string{all},
			status: true, scale: scale(), defaults: defaultReplicaSet,
			fields: []kube.FieldPath{or("status.replicas", "0")},
		}, rules[*appsv1.ReplicaSet]{object: checkReplicaSet, update: keepReplicaSet}),
		kind(row{
			group: group, version: "v1", kind: "StatefulSet", short: []string{"sts"}, categories: []string{all},
			status: true, scale: scale(), defaults: defaultStatefulSet,
		}, rules[*appsv1.StatefulSet]{object: checkStatefulSet, update: keepStatefulSet}),
	}
}

func batchKinds() []*schema.Resource {
	const group = "batch"
	// 52: a job's name is the cron job's and 11 characters, and a label has 63.
	const maxCronJobName = 52
	return []*schema.Resource{
		kind(row{
			group: group, version: "v1", kind: "CronJob", short: []string{"cj"}, categories: []string{all},
			status: true, name: schema.ControllerName(maxCronJobName), defaults: defaultCronJob,
		}, rules[*batchv1.CronJob]{object: checkCronJob}),
		kind(row{
			group: group, version: "v1", kind: "Job", categories: []string{all}, status: true, defaults: defaultJob,
			fields: []kube.FieldPath{{Label: "status.successful", Path: []string{"status", "succeeded"}, Default: "0"}},
		}, rules[*batchv1.Job]{object: checkJob, update: keepJob}),
		kind(row{
			group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", short: []string{"hpa"},
			categories: []string{all}, status: true, defaults: defaultAutoscaler,
		}, rules[*autoscalingv2.HorizontalPodAutoscaler]{object: checkAutoscaler}),
	}
}

func policyKinds() []*schema.Resource {
	const rbac = "rbac.authorization.k8s.io"
	return []*schema.Resource{
		kind(row{
			group: "policy", version: "v1", kind: "PodDisruptionBudget", short: []string{"pdb"},
			status: true, needsVersion: true,
		}, rules[*policyv1.PodDisruptionBudget]{object: checkDisruptionBudget}),
		kind(row{
			group: "scheduling.k8s.io", version: "v1", kind: "PriorityClass", plural: "priorityclasses",
			short: []string{"pc"}, cluster: true, defaults: defaultPriorityClass,
		}, rules[*schedulingv1.PriorityClass]{object: checkPriorityClass, update: keepPriorityClass}),
		kind(row{
			group: rbac, version: "v1", kind: "ClusterRole", cluster: true, createOnUpdate: true,
			name: schema.SegmentName,
		}, rules[*rbacv1.ClusterRole]{object: checkClusterRole}),
		kind(row{
			group: rbac, version: "v1", kind: "ClusterRoleBinding", cluster: true, createOnUpdate: true,
			name: schema.SegmentName, defaults: defaultBinding,
		}, rules[*rbacv1.ClusterRoleBinding]{object: checkClusterRoleBinding, update: keepClusterRoleBinding}),
		kind(row{
			group: rbac, version: "v1", kind: "Role", createOnUpdate: true, name: schema.SegmentName,
		}, rules[*rbacv1.Role]{object: checkRole}),
		kind(row{
			group: rbac, version: "v1", kind: "RoleBinding", createOnUpdate: true,
			name: schema.SegmentName, defaults: defaultBinding,
		}, rules[*rbacv1.RoleBinding]{object: checkRoleBinding, update: keepRoleBinding}),
	}
}
