package batch

import (
	"math"

	"github.com/gapless-io/gapless/internal/kinds/podspec"
	"github.com/gapless-io/gapless/internal/kinds/tree"
)

// Defaults as of pkg/apis/batch/v1/defaults.go of Kubernetes 1.37.

// defaultJob fills in the defaults of a job.
func defaultJob(o tree.Object) {
	spec := tree.Made(o, "spec")
	if spec["completions"] == nil && spec["parallelism"] == nil {
		spec["completions"] = int64(1)
	}
	tree.Set(spec, "parallelism", int64(1))
	backoff := int64(6)
	if spec["backoffLimitPerIndex"] != nil {
		backoff = math.MaxInt32
	}
	tree.Set(spec, "backoffLimit", backoff)
	tree.SetPointer(spec, "completionMode", "NonIndexed")
	tree.Set(spec, "suspend", false)
	tree.Set(spec, "manualSelector", false)
	replacement := "TerminatingOrFailed"
	if tree.Child(spec, "podFailurePolicy") != nil {
		replacement = "Failed"
	}
	tree.SetPointer(spec, "podReplacementPolicy", replacement)
	defaultFailurePolicy(spec)
	podspec.DefaultTemplate(tree.Child(spec, "template"))
	jobLabels(o)
}

// jobLabels gives a job without labels those of its pods: the same map, so that it also
// gets those that its completion adds, as upstream.
func jobLabels(o tree.Object) {
	labels := tree.Child(o, "spec", "template", "metadata", "labels")
	if metadata := tree.Made(o, "metadata"); len(labels) > 0 && len(tree.Child(metadata, "labels")) == 0 {
		metadata["labels"] = labels
	}
}

func defaultFailurePolicy(spec tree.Object) {
	for rule := range tree.Items(tree.Child(spec, "podFailurePolicy"), "rules") {
		for pattern := range tree.Items(rule, "onPodConditions") {
			tree.Set(pattern, "status", "True")
		}
	}
}

// defaultCronJob fills in the defaults of a cron job.
func defaultCronJob(o tree.Object) {
	spec := tree.Made(o, "spec")
	tree.Set(spec, "concurrencyPolicy", "Allow")
	tree.Set(spec, "suspend", false)
	tree.Set(spec, "successfulJobsHistoryLimit", int64(3))
	tree.Set(spec, "failedJobsHistoryLimit", int64(1))
	job := tree.Child(spec, "jobTemplate", "spec")
	defaultFailurePolicy(job)
	podspec.DefaultTemplate(tree.Child(job, "template"))
}

// completeJob gives a new job a selector that no other job can have. What the job says
// itself stays, and validation refuses it if it is something else.
func completeJob(u, old tree.Object) error {
	spec, metadata := tree.Child(u, "spec"), tree.Child(u, "metadata")
	if spec != nil {
		delete(spec, "scheduling") // behind a feature gate that is off
		podspec.DropGated(tree.Child(spec, "template", "spec"))
	}
	if old != nil || spec == nil || tree.Is(spec, "manualSelector") {
		return nil
	}
	const prefix = "batch.kubernetes.io/"
	uid, name := tree.Text(metadata, "uid"), tree.Text(metadata, "name")
	labels := tree.Made(spec, "template", "metadata", "labels")
	tree.SetPointer(labels, prefix+"controller-uid", uid)
	tree.SetPointer(labels, "controller-uid", uid)
	tree.SetPointer(labels, prefix+"job-name", name)
	tree.SetPointer(labels, "job-name", name)
	tree.SetPointer(tree.Made(spec, "selector", "matchLabels"), prefix+"controller-uid", uid)
	jobLabels(u)
	return nil
}

// completeCronJob removes gated fields from the job template of a cron job.
func completeCronJob(u, _ tree.Object) error {
	if job := tree.Child(u, "spec", "jobTemplate", "spec"); job != nil {
		delete(job, "scheduling")
		podspec.DropGated(tree.Child(job, "template", "spec"))
	}
	return nil
}
