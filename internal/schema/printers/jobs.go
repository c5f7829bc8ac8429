package printers

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func jobs(resource string) (Printer, bool) {
	switch resource {
	case "jobs.batch":
		return of("Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*", jobCells), true
	case "cronjobs.batch":
		return of("Name|Schedule|Timezone|Suspend|Active|Last Schedule|Age|Containers*|Images*|Selector*", cronJobCells), true
	case "horizontalpodautoscalers.autoscaling":
		return of("Name|Reference|Targets|MinPods|MaxPods|Replicas|Age", autoscalerCells), true
	}
	return Printer{}, false
}

func jobCells(o *batchv1.Job, r row) []any {
	names, images := containers(o.Spec.Template.Spec)
	return []any{
		r.name, jobStatus(o), completions(o), jobDuration(o, r), r.age, names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func jobStatus(o *batchv1.Job) string {
	has := func(t batchv1.JobConditionType) bool {
		for _, c := range o.Status.Conditions {
			if c.Type == t && c.Status == corev1.ConditionTrue {
				return true
			}
		}
		return false
	}
	switch {
	case has(batchv1.JobComplete):
		return "Complete"
	case has(batchv1.JobFailed):
		return "Failed"
	case o.DeletionTimestamp != nil:
		return "Terminating"
	case has(batchv1.JobSuspended):
		return "Suspended"
	case has(batchv1.JobFailureTarget):
		return "FailureTarget"
	case has(batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func completions(o *batchv1.Job) string {
	if o.Spec.Completions != nil {
		return fmt.Sprintf("%d/%d", o.Status.Succeeded, *o.Spec.Completions)
	}
	if parallel := deref(o.Spec.Parallelism); parallel > 1 {
		return fmt.Sprintf("%d/1 of %d", o.Status.Succeeded, parallel)
	}
	return fmt.Sprintf("%d/1", o.Status.Succeeded)
}

func jobDuration(o *batchv1.Job, r row) string {
	switch {
	case o.Status.StartTime == nil:
		return ""
	case o.Status.CompletionTime == nil:
		return duration.HumanDuration(r.now.Sub(o.Status.StartTime.Time))
	default:
		return duration.HumanDuration(o.Status.CompletionTime.Sub(o.Status.StartTime.Time))
	}
}

func cronJobCells(o *batchv1.CronJob, r row) []any {
	names, images := containers(o.Spec.JobTemplate.Spec.Template.Spec)
	suspend := "False"
	if deref(o.Spec.Suspend) {
		suspend = "True"
	}
	return []any{
		r.name, o.Spec.Schedule, text(o.Spec.TimeZone, "<none>"), suspend, int64(len(o.Status.Active)),
		ageOf(o.Status.LastScheduleTime, r.now), r.age, names, images, metav1.FormatLabelSelector(o.Spec.JobTemplate.Spec.Selector),
	}
}

func autoscalerCells(o *autoscalingv2.HorizontalPodAutoscaler, r row) []any {
	var targets []string
	for i, m := range o.Spec.Metrics {
		if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil {
			targets = append(targets, string(m.Type))
			continue
		}
		current := "<unknown>"
		if i < len(o.Status.CurrentMetrics) {
			if c := o.Status.CurrentMetrics[i].Resource; c != nil && c.Current.AverageUtilization != nil {
				current = fmt.Sprintf("%d%%", *c.Current.AverageUtilization)
			} else if c != nil && c.Current.AverageValue != nil {
				current = c.Current.AverageValue.String()
			}
		}
		goal := "<auto>"
		if u := m.Resource.Target.AverageUtilization; u != nil {
			goal = fmt.Sprintf("%d%%", *u)
		} else if v := m.Resource.Target.AverageValue; v != nil {
			goal = v.String()
		}
		targets = append(targets, fmt.Sprintf("%s: %s/%s", m.Resource.Name, current, goal))
	}
	return []any{
		r.name, o.Spec.ScaleTargetRef.Kind + "/" + o.Spec.ScaleTargetRef.Name, joinFirst(targets, 2),
		text(o.Spec.MinReplicas, "<unset>"), int64(o.Spec.MaxReplicas), int64(o.Status.CurrentReplicas), r.age,
	}
}
