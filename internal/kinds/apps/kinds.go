package builtin

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/builtin/defaults"
	"github.com/gapless-io/gapless/internal/kinds/builtin/validation"
	"github.com/gapless-io/gapless/internal/kinds/builtin/warnings"
	"github.com/gapless-io/gapless/internal/wire"
)

func appsKinds() []*kinds.Resource {
	const group = "apps"
	return []*kinds.Resource{
		kind(row{
			group: group, version: "v1", kind: "ControllerRevision",
		}, rules[*appsv1.ControllerRevision]{object: validation.ControllerRevision, update: validation.ControllerRevisionUpdate}),
		kind(row{
			group: group, version: "v1", kind: "DaemonSet", short: []string{"ds"}, categories: []string{all},
			status: true, defaults: defaults.DaemonSet,
		}, rules[*appsv1.DaemonSet]{object: validation.DaemonSet, update: validation.DaemonSetUpdate, warn: warnings.DaemonSet}),
		kind(row{
			group: group, version: "v1", kind: "Deployment", short: []string{"deploy"}, categories: []string{all},
			status: true, scale: scale(), defaults: defaults.Deployment,
		}, rules[*appsv1.Deployment]{object: validation.Deployment, update: validation.DeploymentUpdate, warn: warnings.Deployment}),
		kind(row{
			group: group, version: "v1", kind: "ReplicaSet", short: []string{"rs"}, categories: []string{all},
			status: true, scale: scale(), defaults: defaults.ReplicaSet,
		}, rules[*appsv1.ReplicaSet]{object: validation.ReplicaSet, update: validation.ReplicaSetUpdate, warn: warnings.ReplicaSet}),
		kind(row{
			group: group, version: "v1", kind: "StatefulSet", short: []string{"sts"}, categories: []string{all},
			status: true, scale: scale(), defaults: defaults.StatefulSet,
		}, rules[*appsv1.StatefulSet]{
			object: validation.StatefulSet, create: validation.NewStatefulSet, update: validation.StatefulSetUpdate, warn: warnings.StatefulSet,
		}),
	}
}

func batchKinds() []*kinds.Resource {
	const group = "batch"
	// 52: a job's name is the cron job's and 11 characters, and a label has 63.
	const maxCronJobName = 52
	return []*kinds.Resource{
		kind(row{
			group: group, version: "v1", kind: "CronJob", short: []string{"cj"}, categories: []string{all},
			status: true, name: kinds.ControllerName(maxCronJobName), defaults: defaults.CronJob,
		}, rules[*batchv1.CronJob]{object: validation.CronJob, warn: warnings.CronJob}),
		kind(row{
			group: group, version: "v1", kind: "Job", categories: []string{all}, status: true, defaults: defaults.Job,
			fields: []wire.FieldPath{{Label: "status.successful", Path: []string{"status", "succeeded"}, Default: "0"}},
		}, rules[*batchv1.Job]{object: validation.Job, create: validation.NewJob, update: validation.JobUpdate, warn: warnings.Job}),
		kind(row{
			group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", short: []string{"hpa"},
			categories: []string{all}, status: true, defaults: defaults.Autoscaler,
		}, rules[*autoscalingv2.HorizontalPodAutoscaler]{
			object: validation.HorizontalPodAutoscaler, create: validation.NewHorizontalPodAutoscaler, update: validation.HorizontalPodAutoscalerUpdate,
		}),
	}
}

func policyKinds() []*kinds.Resource {
	const rbac = "rbac.authorization.k8s.io"
	return []*kinds.Resource{
		kind(row{
			group: "policy", version: "v1", kind: "PodDisruptionBudget", short: []string{"pdb"},
			status: true, needsVersion: true, name: kinds.SegmentName,
		}, rules[*policyv1.PodDisruptionBudget]{object: validation.PodDisruptionBudget}),
		kind(row{
			group: "scheduling.k8s.io", version: "v1", kind: "PriorityClass", plural: "priorityclasses",
			short: []string{"pc"}, cluster: true, defaults: defaults.PriorityClass,
		}, rules[*schedulingv1.PriorityClass]{create: validation.NewPriorityClass, update: validation.PriorityClassUpdate}),
		kind(row{
			group: rbac, version: "v1", kind: "ClusterRole", cluster: true, createOnUpdate: true,
			name: kinds.SegmentName,
		}, rules[*rbacv1.ClusterRole]{object: validation.ClusterRole}),
		kind(row{
			group: rbac, version: "v1", kind: "ClusterRoleBinding", cluster: true, createOnUpdate: true,
			name: kinds.SegmentName, defaults: defaults.Binding,
		}, rules[*rbacv1.ClusterRoleBinding]{object: validation.ClusterRoleBinding, update: validation.ClusterRoleBindingUpdate}),
		kind(row{
			group: rbac, version: "v1", kind: "Role", createOnUpdate: true, name: kinds.SegmentName,
		}, rules[*rbacv1.Role]{object: validation.Role}),
		kind(row{
			group: rbac, version: "v1", kind: "RoleBinding", createOnUpdate: true,
			name: kinds.SegmentName, defaults: defaults.Binding,
		}, rules[*rbacv1.RoleBinding]{object: validation.RoleBinding, update: validation.RoleBindingUpdate}),
	}
}
