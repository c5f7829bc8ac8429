package printers

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	resources "github.com/gapless-io/gapless/internal/kinds"
)

func jobs(resource string) (Printer, bool) {
	selector := str("Selector", doc(batchv1.JobSpec{}, "selector"))
	switch resource {
	case "jobs.batch":
		return of(jobCells, append(
			[]column{
				name(), str("Status", "Status of the job."), str("Completions", doc(batchv1.JobStatus{}, "succeeded")),
				str("Duration", "Time required to complete the job."), age(),
			},
			wide(append(containerColumns(), selector)...)...)...), true
	case "cronjobs.batch":
		spec, status := batchv1.CronJobSpec{}, batchv1.CronJobStatus{}
		return of(cronJobCells, append(
			[]column{
				name(), str("Schedule", doc(spec, "schedule")), str("Timezone", doc(spec, "timeZone")),
				boolean("Suspend", doc(spec, "suspend")), integer("Active", doc(status, "active")),
				str("Last Schedule", doc(status, "lastScheduleTime")), age(),
			},
			wide(append(containerColumns(), selector)...)...)...), true
	case "horizontalpodautoscalers.autoscaling":
		return autoscalers(), true
	}
	return Printer{}, false
}

func jobCells(o *batchv1.Job, r row) []any {
	names, images := containers(o.Spec.Template.Spec)
	return []any{
		r.name, jobStatus(o), completions(o), jobDuration(o), r.age, names, images, metav1.FormatLabelSelector(o.Spec.Selector),
	}
}

func jobStatus(o *batchv1.Job) string {
	has := func(t batchv1.JobConditionType) bool {
		for _, c := range o.Status.Conditions {
			if c.Type == t {
				return c.Status == corev1.ConditionTrue
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

func jobDuration(o *batchv1.Job) any {
	switch {
	case o.Status.StartTime == nil:
		return ""
	case o.Status.CompletionTime == nil:
		return resources.Ago{Then: o.Status.StartTime.Time}
	default:
		return duration.HumanDuration(o.Status.CompletionTime.Sub(o.Status.StartTime.Time))
	}
}

func cronJobCells(o *batchv1.CronJob, r row) []any {
	names, images := containers(o.Spec.JobTemplate.Spec.Template.Spec)
	suspend := "<unset>"
	if o.Spec.Suspend != nil {
		suspend = word(*o.Spec.Suspend)
	}
	return []any{
		r.name, o.Spec.Schedule, text(o.Spec.TimeZone, "<none>"), suspend, int64(len(o.Status.Active)),
		ageOf(o.Status.LastScheduleTime), r.age, names, images, metav1.FormatLabelSelector(o.Spec.JobTemplate.Spec.Selector),
	}
}
