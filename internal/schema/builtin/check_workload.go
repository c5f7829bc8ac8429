package builtin

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func specPath(names ...string) *field.Path {
	return field.NewPath("spec", names...)
}

func checkDeployment(o *appsv1.Deployment) field.ErrorList {
	spec := &o.Spec
	errs := selects("deployment", specPath(), spec.Selector, spec.Template.Labels)
	errs = append(errs, notNegative(specPath("replicas"), spec.Replicas)...)
	errs = append(errs, checkTemplate(specPath("template"), &spec.Template, corev1.RestartPolicyAlways)...)
	errs = append(errs, notNegative(specPath("minReadySeconds"), &spec.MinReadySeconds)...)
	errs = append(errs, notNegative(specPath("revisionHistoryLimit"), spec.RevisionHistoryLimit)...)
	if d := spec.ProgressDeadlineSeconds; d != nil {
		errs = append(errs, notNegative(specPath("progressDeadlineSeconds"), d)...)
		if *d <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(specPath("progressDeadlineSeconds"), *d, "must be greater than minReadySeconds"))
		}
	}
	at := specPath("strategy")
	errs = append(errs, oneOf(at.Child("type"), spec.Strategy.Type, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType)...)
	rolling := spec.Strategy.RollingUpdate
	switch {
	case rolling == nil:
	case spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType:
		errs = append(errs, field.Forbidden(at.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'"))
	default:
		errs = append(errs, intOrPercent(at.Child("rollingUpdate", "maxUnavailable"), rolling.MaxUnavailable)...)
		errs = append(errs, intOrPercent(at.Child("rollingUpdate", "maxSurge"), rolling.MaxSurge)...)
		if isZero(rolling.MaxUnavailable) && isZero(rolling.MaxSurge) {
			errs = append(errs, field.Invalid(at.Child("rollingUpdate", "maxUnavailable"), rolling.MaxUnavailable, "may not be 0 when `maxSurge` is 0"))
		}
	}
	return errs
}

func isZero(v *intstr.IntOrString) bool {
	return v != nil && (v.Type == intstr.Int && v.IntVal == 0 || v.Type == intstr.String && v.StrVal == "0%")
}

// intOrPercent checks a number of pods: 0 or more, or a percentage.
func intOrPercent(at *field.Path, v *intstr.IntOrString) field.ErrorList {
	if v == nil {
		return nil
	}
	if v.Type == intstr.Int {
		return notNegative(at, &v.IntVal)
	}
	digits, ok := strings.CutSuffix(v.StrVal, "%")
	if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return field.ErrorList{field.Invalid(at, v, "must be an integer or percentage (e.g '5%%')")}
	}
	return nil
}

func keepDeployment(o, old *appsv1.Deployment) field.ErrorList {
	return kept(specPath("selector"), o.Spec.Selector, old.Spec.Selector)
}

func checkReplicaSet(o *appsv1.ReplicaSet) field.ErrorList {
	errs := selects("replicaset", specPath(), o.Spec.Selector, o.Spec.Template.Labels)
	errs = append(errs, notNegative(specPath("replicas"), o.Spec.Replicas)...)
	errs = append(errs, notNegative(specPath("minReadySeconds"), &o.Spec.MinReadySeconds)...)
	return append(errs, checkTemplate(specPath("template"), &o.Spec.Template, corev1.RestartPolicyAlways)...)
}

func keepReplicaSet(o, old *appsv1.ReplicaSet) field.ErrorList {
	return kept(specPath("selector"), o.Spec.Selector, old.Spec.Selector)
}

func checkReplicationController(o *corev1.ReplicationController) field.ErrorList {
	errs := notNegative(specPath("replicas"), o.Spec.Replicas)
	if len(o.Spec.Selector) == 0 {
		errs = append(errs, field.Required(specPath("selector"), ""))
	}
	template := o.Spec.Template
	if template == nil {
		return append(errs, field.Required(specPath("template"), ""))
	}
	if !labels.SelectorFromSet(o.Spec.Selector).Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(specPath("template", "metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	return append(errs, checkTemplate(specPath("template"), template, corev1.RestartPolicyAlways)...)
}

func checkDaemonSet(o *appsv1.DaemonSet) field.ErrorList {
	errs := selects("daemonset", specPath(), o.Spec.Selector, o.Spec.Template.Labels)
	errs = append(errs, checkTemplate(specPath("template"), &o.Spec.Template, corev1.RestartPolicyAlways)...)
	errs = append(errs, notNegative(specPath("minReadySeconds"), &o.Spec.MinReadySeconds)...)
	errs = append(errs, notNegative(specPath("revisionHistoryLimit"), o.Spec.RevisionHistoryLimit)...)
	return append(errs, oneOf(specPath("updateStrategy", "type"), o.Spec.UpdateStrategy.Type,
		appsv1.OnDeleteDaemonSetStrategyType, appsv1.RollingUpdateDaemonSetStrategyType)...)
}

func keepDaemonSet(o, old *appsv1.DaemonSet) field.ErrorList {
	return kept(specPath("selector"), o.Spec.Selector, old.Spec.Selector)
}

func checkStatefulSet(o *appsv1.StatefulSet) field.ErrorList {
	spec := &o.Spec
	errs := selects("statefulset", specPath(), spec.Selector, spec.Template.Labels)
	errs = append(errs, oneOf(specPath("podManagementPolicy"), spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)...)
	errs = append(errs, oneOf(specPath("updateStrategy", "type"), spec.UpdateStrategy.Type,
		appsv1.OnDeleteStatefulSetStrategyType, appsv1.RollingUpdateStatefulSetStrategyType)...)
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil {
		if spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			errs = append(errs, field.Invalid(specPath("updateStrategy", "rollingUpdate"), rolling,
				fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType)))
		}
		errs = append(errs, notNegative(specPath("updateStrategy", "rollingUpdate", "partition"), rolling.Partition)...)
	}
	errs = append(errs, notNegative(specPath("replicas"), spec.Replicas)...)
	errs = append(errs, notNegative(specPath("minReadySeconds"), &spec.MinReadySeconds)...)
	// A mount may refer to a claim template, which is a volume of every pod.
	template := spec.Template.DeepCopy()
	for _, claim := range spec.VolumeClaimTemplates {
		if !mounts(template.Spec.Volumes, claim.Name) {
			source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
			template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: source})
		}
	}
	return append(errs, checkTemplate(specPath("template"), template, corev1.RestartPolicyAlways)...)
}

func mounts(volumes []corev1.Volume, name string) bool {
	for _, v := range volumes {
		if v.Name == name {
			return true
		}
	}
	return false
}

func keepStatefulSet(o, old *appsv1.StatefulSet) field.ErrorList {
	spec, before := o.Spec.DeepCopy(), &old.Spec
	spec.Replicas = before.Replicas
	spec.Ordinals = before.Ordinals
	spec.Template = before.Template
	spec.UpdateStrategy = before.UpdateStrategy
	spec.RevisionHistoryLimit = before.RevisionHistoryLimit
	spec.PersistentVolumeClaimRetentionPolicy = before.PersistentVolumeClaimRetentionPolicy
	spec.MinReadySeconds = before.MinReadySeconds
	if equality.Semantic.DeepEqual(spec, before) {
		return nil
	}
	return field.ErrorList{field.Forbidden(specPath(),
		"updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "+
			"'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")}
}

func checkControllerRevision(o *appsv1.ControllerRevision) field.ErrorList {
	errs := notNegative(field.NewPath("revision"), &o.Revision)
	if len(o.Data.Raw) == 0 && o.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	return errs
}

func keepControllerRevision(o, old *appsv1.ControllerRevision) field.ErrorList {
	return kept(field.NewPath("data"), o.Data, old.Data)
}

func checkJob(o *batchv1.Job) field.ErrorList {
	return checkJobSpec(specPath(), &o.Spec)
}

func checkJobSpec(at *field.Path, spec *batchv1.JobSpec) field.ErrorList {
	errs := notNegative(at.Child("parallelism"), spec.Parallelism)
	errs = append(errs, notNegative(at.Child("completions"), spec.Completions)...)
	errs = append(errs, notNegative(at.Child("activeDeadlineSeconds"), spec.ActiveDeadlineSeconds)...)
	errs = append(errs, notNegative(at.Child("backoffLimit"), spec.BackoffLimit)...)
	errs = append(errs, notNegative(at.Child("ttlSecondsAfterFinished"), spec.TTLSecondsAfterFinished)...)
	if mode := spec.CompletionMode; mode != nil {
		errs = append(errs, oneOf(at.Child("completionMode"), *mode, batchv1.IndexedCompletion, batchv1.NonIndexedCompletion)...)
		if *mode == batchv1.IndexedCompletion && spec.Completions == nil {
			errs = append(errs, field.Required(at.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
		}
	}
	if spec.ManualSelector != nil && *spec.ManualSelector && spec.Selector == nil {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	}
	if spec.Selector != nil {
		errs = append(errs, selects("job", at, spec.Selector, spec.Template.Labels)...)
	}
	policy := at.Child("template", "spec", "restartPolicy")
	if spec.Template.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		errs = append(errs, field.Required(policy, `valid values: "OnFailure", "Never"`))
	}
	return append(errs, checkTemplate(at.Child("template"), &spec.Template)...)
}

// keepJob lets a job change only what the job controller can follow; the pod
// template of a suspended job that never started may still be moved elsewhere.
func keepJob(o, old *batchv1.Job) field.ErrorList {
	template := o.Spec.Template.DeepCopy()
	if before := &old.Spec.Template; old.Spec.Suspend != nil && *old.Spec.Suspend && old.Status.StartTime == nil {
		template.Labels, template.Annotations = before.Labels, before.Annotations
		template.Spec.NodeSelector, template.Spec.Tolerations = before.Spec.NodeSelector, before.Spec.Tolerations
		template.Spec.Affinity, template.Spec.SchedulingGates = before.Spec.Affinity, before.Spec.SchedulingGates
	}
	errs := kept(specPath("template"), *template, old.Spec.Template)
	errs = append(errs, kept(specPath("completionMode"), o.Spec.CompletionMode, old.Spec.CompletionMode)...)
	if mode := old.Spec.CompletionMode; mode == nil || *mode == batchv1.NonIndexedCompletion {
		errs = append(errs, kept(specPath("completions"), o.Spec.Completions, old.Spec.Completions)...)
	}
	// A job from before its selector was generated may still get one.
	if old.Spec.Selector != nil {
		errs = append(errs, kept(specPath("selector"), o.Spec.Selector, old.Spec.Selector)...)
	}
	return errs
}

func checkCronJob(o *batchv1.CronJob) field.ErrorList {
	spec := &o.Spec
	errs := required(specPath("schedule"), spec.Schedule, scheduleProblems)
	errs = append(errs, oneOf(specPath("concurrencyPolicy"), spec.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	errs = append(errs, notNegative(specPath("startingDeadlineSeconds"), spec.StartingDeadlineSeconds)...)
	errs = append(errs, notNegative(specPath("successfulJobsHistoryLimit"), spec.SuccessfulJobsHistoryLimit)...)
	errs = append(errs, notNegative(specPath("failedJobsHistoryLimit"), spec.FailedJobsHistoryLimit)...)
	return append(errs, checkJobSpec(specPath("jobTemplate", "spec"), &spec.JobTemplate.Spec)...)
}

// scheduleProblems looks at the shape of a cron schedule: five fields, or a
// descriptor such as @daily or @every 1h. The fields themselves are the
// controller's business.
func scheduleProblems(schedule string) []string {
	if strings.Contains(schedule, "TZ") {
		return []string{"cannot use TZ or CRON_TZ in schedule, use timeZone field instead"}
	}
	if n := len(strings.Fields(schedule)); !strings.HasPrefix(schedule, "@") && n != 5 {
		return []string{fmt.Sprintf("expected exactly 5 fields, found %d: [%s]", n, schedule)}
	}
	return nil
}

func checkAutoscaler(o *autoscalingv2.HorizontalPodAutoscaler) field.ErrorList {
	spec := &o.Spec
	var errs field.ErrorList
	if spec.MinReplicas != nil && *spec.MinReplicas < 0 {
		errs = append(errs, field.Invalid(specPath("minReplicas"), *spec.MinReplicas, "must be greater than or equal to 0"))
	}
	errs = append(errs, positive(specPath("maxReplicas"), &spec.MaxReplicas)...)
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs, field.Invalid(specPath("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, required(specPath("scaleTargetRef", "kind"), spec.ScaleTargetRef.Kind, nil)...)
	errs = append(errs, required(specPath("scaleTargetRef", "name"), spec.ScaleTargetRef.Name, nil)...)
	for i, m := range spec.Metrics {
		errs = append(errs, required(specPath("metrics").Index(i).Child("type"), string(m.Type), nil)...)
	}
	return errs
}
