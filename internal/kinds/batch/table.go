package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/table"
)

func jobTable() kinds.Table {
	t := table.Of(jobCells, append(
		[]table.Column{
			table.Name(), table.Str("Status", "Status of the job."),
			table.Str("Completions", table.Doc(batchv1.JobStatus{}, "succeeded")),
			table.Str("Duration", "Time required to complete the job."), table.Age(),
		},
		table.Wide(append(podspec.ContainerColumns(), selectorColumn())...)...)...)
	t.RowsSince = 34
	return t
}

func cronJobTable() kinds.Table {
	spec, status := batchv1.CronJobSpec{}, batchv1.CronJobStatus{}
	return table.Of(cronJobCells, append(
		[]table.Column{
			table.Name(), table.Str("Schedule", table.Doc(spec, "schedule")), table.Str("Timezone", table.Doc(spec, "timeZone")),
			table.Boolean("Suspend", table.Doc(spec, "suspend")), table.Integer("Active", table.Doc(status, "active")),
			table.Str("Last Schedule", table.Doc(status, "lastScheduleTime")), table.Age(),
		},
		table.Wide(append(podspec.ContainerColumns(), selectorColumn())...)...)...)
}

func selectorColumn() table.Column {
	return table.Str("Selector", table.Doc(batchv1.JobSpec{}, "selector"))
}

func jobCells(o *batchv1.Job, r table.Meta) []any {
	names, images := podspec.Containers(o.Spec.Template.Spec)
	return []any{
		r.Name, jobStatus(o), completions(o), jobDuration(o), r.Age, names, images, metav1.FormatLabelSelector(o.Spec.Selector),
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
	if parallel := table.Deref(o.Spec.Parallelism); parallel > 1 {
		return fmt.Sprintf("%d/1 of %d", o.Status.Succeeded, parallel)
	}
	return fmt.Sprintf("%d/1", o.Status.Succeeded)
}

func jobDuration(o *batchv1.Job) any {
	switch {
	case o.Status.StartTime == nil:
		return ""
	case o.Status.CompletionTime == nil:
		return kinds.Ago{Then: o.Status.StartTime.Time}
	default:
		return duration.HumanDuration(o.Status.CompletionTime.Sub(o.Status.StartTime.Time))
	}
}

func cronJobCells(o *batchv1.CronJob, r table.Meta) []any {
	names, images := podspec.Containers(o.Spec.JobTemplate.Spec.Template.Spec)
	suspend := "<unset>"
	if o.Spec.Suspend != nil {
		suspend = table.Word(*o.Spec.Suspend)
	}
	return []any{
		r.Name, o.Spec.Schedule, table.Text(o.Spec.TimeZone, "<none>"), suspend, int64(len(o.Status.Active)),
		table.AgeOf(o.Status.LastScheduleTime),
		r.Age, names, images, metav1.FormatLabelSelector(o.Spec.JobTemplate.Spec.Selector),
	}
}
