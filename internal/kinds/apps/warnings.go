package warnings

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// templateAt is where most workloads have the template of their pods.
func templateAt() *field.Path { return field.NewPath("spec", "template") }

// DaemonSet warns about a new DaemonSet, or about a new template.
func DaemonSet(o, old *appsv1.DaemonSet) []string {
	var l list
	if old == nil || o.Annotations[appsv1.DeprecatedTemplateGeneration] != old.Annotations[appsv1.DeprecatedTemplateGeneration] {
		l.template(templateAt(), &o.Spec.Template)
	}
	return l.texts
}

// Deployment warns about a new Deployment, or about the template when its generation changes.
func Deployment(o, old *appsv1.Deployment) []string {
	var l list
	if old == nil {
		l.hostname(o.Name, podNames)
	}
	if old == nil || o.Generation != old.Generation {
		l.template(templateAt(), &o.Spec.Template)
	}
	return l.texts
}

// ReplicaSet warns about a new ReplicaSet, or about the template when its generation changes.
func ReplicaSet(o, old *appsv1.ReplicaSet) []string {
	var l list
	if old == nil {
		l.hostname(o.Name, podNames)
	}
	if old == nil || o.Generation != old.Generation {
		l.template(templateAt(), &o.Spec.Template)
	}
	return l.texts
}

// ReplicationController warns about a new ReplicationController. When the generation changes,
// upstream warns about the former template, which is meant to be the new one.
func ReplicationController(o, old *corev1.ReplicationController) []string {
	var l list
	switch {
	case old == nil:
		l.hostname(o.Name, podNames)
		if o.Spec.Template != nil {
			l.template(templateAt(), o.Spec.Template)
		}
	case o.Generation != old.Generation && old.Spec.Template != nil:
		l.template(templateAt(), old.Spec.Template)
	}
	return l.texts
}

// StatefulSet warns about a new StatefulSet, or about the template when its generation
// changes, and about its claims.
func StatefulSet(o, old *appsv1.StatefulSet) []string {
	var l list
	if old == nil || o.Generation != old.Generation {
		l.template(templateAt(), &o.Spec.Template)
	}
	for i := range o.Spec.VolumeClaimTemplates {
		l.claim(func() *field.Path {
			at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
			if old != nil {
				at = at.Child("Spec") // only then upstream's path has it
			}
			return at
		}, &o.Spec.VolumeClaimTemplates[i].Spec)
	}
	if n := o.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		l.say("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return l.texts
}

// Job warns about a new Job, or about its spec when its generation changes.
func Job(o, old *batchv1.Job) []string {
	var l list
	if old == nil {
		l.hostname(o.Name, podNames)
	}
	if old == nil || o.Generation != old.Generation {
		l.job(field.NewPath("spec"), &o.Spec)
	}
	return l.texts
}

// CronJob warns about a new CronJob, or about its jobs when its generation changes.
func CronJob(o, old *batchv1.CronJob) []string {
	var l list
	if old == nil {
		l.hostname(o.Name, podNames)
	}
	if old == nil || o.Generation != old.Generation {
		l.job(field.NewPath("spec", "jobTemplate", "spec"), &o.Spec.JobTemplate.Spec)
	}
	if old != nil && strings.Contains(o.Spec.Schedule, "TZ") {
		l.say("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, " +
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return l.texts
}

// job warns about the spec of a job at a path.
func (l *list) job(at *field.Path, spec *batchv1.JobSpec) {
	// The limits of pkg/api/job/warnings.go.
	const completions, parallelism = 100_000, 10_000
	if mode := spec.CompletionMode; mode != nil && *mode == batchv1.IndexedCompletion &&
		more(spec.Completions, completions) && more(spec.Parallelism, parallelism) {
		l.at(at, "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	l.template(at.Child("template"), &spec.Template)
}

func more(n *int32, than int32) bool { return n != nil && *n > than }
