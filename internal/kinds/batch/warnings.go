package batch

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/warn"
)

// warnJob warns about a new Job, or about its spec when its generation changes.
func warnJob(o, old *batchv1.Job) []string {
	var l warn.List
	if old == nil {
		l.Hostname(o.Name, warn.PodNames)
	}
	if old == nil || o.Generation != old.Generation {
		warnJobSpec(&l, field.NewPath("spec"), &o.Spec)
	}
	return l.Texts()
}

// warnCronJob warns about a new CronJob, or about its jobs when its generation changes.
func warnCronJob(o, old *batchv1.CronJob) []string {
	var l warn.List
	if old == nil {
		l.Hostname(o.Name, warn.PodNames)
	}
	if old == nil || o.Generation != old.Generation {
		warnJobSpec(&l, field.NewPath("spec", "jobTemplate", "spec"), &o.Spec.JobTemplate.Spec)
	}
	if old != nil && strings.Contains(o.Spec.Schedule, "TZ") {
		l.Say("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return l.Texts()
}

// warnJobSpec warns about the spec of a job at a path.
func warnJobSpec(l *warn.List, at *field.Path, spec *batchv1.JobSpec) {
	// The limits of pkg/api/job/warnings.go.
	const completions, parallelism = 100_000, 10_000
	if mode := spec.CompletionMode; mode != nil && *mode == batchv1.IndexedCompletion &&
		more(spec.Completions, completions) && more(spec.Parallelism, parallelism) {
		l.At(at, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	podspec.WarnTemplate(l, at.Child("template"), &spec.Template)
}

func more(n *int32, than int32) bool { return n != nil && *n > than }
