package batch

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gapless-io/gapless/internal/kinds/check"
	"github.com/gapless-io/gapless/internal/kinds/podrules"
)

// validateJob validates a Job.
func validateJob(o *batchv1.Job) field.ErrorList {
	spec := &o.Spec
	errs := checkJobSpec(check.Spec(), spec)
	errs = append(errs, checkJobStatus(&o.Status)...)
	if spec.Selector == nil {
		errs = append(errs, field.Required(check.Spec("selector"), ""))
	} else {
		errs = append(errs, check.LabelSelector(check.Spec("selector"), spec.Selector)...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil &&
		!selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, podrules.NotSelected(check.Spec(), spec.Template.Labels))
	}
	return errs
}

// validateNewJob validates a new Job: its selector and the labels of its pods are those that the
// server gives them, unless it selects by itself.
func validateNewJob(o *batchv1.Job) field.ErrorList {
	errs := hostnamesOf(o)
	if manual := o.Spec.ManualSelector; o.Spec.Selector == nil || manual != nil && *manual {
		return errs
	}
	own := map[string]string{
		batchv1.ControllerUidLabel: string(o.UID), "controller-uid": string(o.UID),
		batchv1.JobNameLabel: o.Name, "job-name": o.Name,
	}
	at := check.Spec("template", "metadata", "labels")
	for _, key := range []string{"controller-uid", "job-name", batchv1.ControllerUidLabel, batchv1.JobNameLabel} {
		switch value, has := o.Spec.Template.Labels[key]; {
		case !has:
			errs = append(errs, field.Required(at.Key(key), fmt.Sprintf("must be '%s'", own[key])))
		case value != own[key]:
			errs = append(errs, field.Invalid(at.Key(key), o.Spec.Template.Labels, fmt.Sprintf("must be '%s'", own[key])))
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil && !selector.Matches(labels.Set(own)) {
		errs = append(errs, field.Invalid(check.Spec("selector"), o.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// hostnamesOf checks that the pods of an indexed job, which are named after it, can have
// their names as hostnames.
func hostnamesOf(o *batchv1.Job) field.ErrorList {
	mode, n := o.Spec.CompletionMode, o.Spec.Completions
	if mode == nil || *mode != batchv1.IndexedCompletion || n == nil || *n <= 0 {
		return nil
	}
	last := fmt.Sprintf("%s-%d", o.Name, *n-1)
	if len(validation.IsDNS1123Label(last)) == 0 {
		return nil
	}
	return field.ErrorList{
		field.Invalid(field.NewPath("metadata", "name"), o.Name, "will not able to create pod with invalid DNS label: "+last),
	}
}

func checkJobSpec(at *field.Path, spec *batchv1.JobSpec) field.ErrorList {
	errs := check.NotNegative(at, "parallelism", spec.Parallelism)
	errs = append(errs, check.NotNegative(at, "completions", spec.Completions)...)
	errs = append(errs, check.NotNegative(at, "activeDeadlineSeconds", spec.ActiveDeadlineSeconds)...)
	errs = append(errs, check.NotNegative(at, "backoffLimit", spec.BackoffLimit)...)
	errs = append(errs, check.NotNegative(at, "ttlSecondsAfterFinished", spec.TTLSecondsAfterFinished)...)
	errs = append(errs, checkCompletions(at, spec)...)
	errs = append(errs, checkFailurePolicy(at, spec)...)
	errs = append(errs, checkSuccessPolicy(at.Child("successPolicy", "rules"), spec)...)
	if by := spec.ManagedBy; by != nil {
		const longest = 63 // maxManagedByLength of pkg/apis/batch/validation
		errs = append(errs, validation.IsDomainPrefixedPath(at.Child("managedBy"), *by)...)
		if len(*by) > longest {
			errs = append(errs, field.TooLong(at.Child("managedBy"), "", longest))
		}
	}
	policy := at.Child("template", "spec", "restartPolicy")
	switch chosen := spec.Template.Spec.RestartPolicy; {
	case chosen == corev1.RestartPolicyAlways || chosen == "":
		errs = append(errs, field.Required(policy, `valid values: "OnFailure", "Never"`))
	case chosen != corev1.RestartPolicyOnFailure && chosen != corev1.RestartPolicyNever:
		errs = append(errs, check.Known(policy, "", chosen, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	case spec.PodFailurePolicy != nil && chosen != corev1.RestartPolicyNever:
		errs = append(errs, field.Invalid(policy, chosen, `only "Never" is supported when podFailurePolicy is specified`))
	}
	return append(errs, podrules.Template(at.Child("template"), &spec.Template)...)
}

// checkCompletions checks how the completions of a job are counted.
func checkCompletions(at *field.Path, spec *batchv1.JobSpec) field.ErrorList {
	const mostParallel = 100_000 // maxParallelismForIndexedJob of pkg/apis/batch/validation
	errs := check.KnownIfSet(at, "completionMode", spec.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	errs = append(errs, check.NotNegative(at, "backoffLimitPerIndex", spec.BackoffLimitPerIndex)...)
	errs = append(errs, check.NotNegative(at, "maxFailedIndexes", spec.MaxFailedIndexes)...)
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(at.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	mode := batchv1.NonIndexedCompletion
	if spec.CompletionMode != nil {
		mode = *spec.CompletionMode
	}
	if mode == batchv1.NonIndexedCompletion {
		if spec.BackoffLimitPerIndex != nil {
			errs = append(errs,
				field.Invalid(at.Child("backoffLimitPerIndex"), *spec.BackoffLimitPerIndex, "requires indexed completion mode"))
		}
		if spec.MaxFailedIndexes != nil {
			errs = append(errs,
				field.Invalid(at.Child("maxFailedIndexes"), *spec.MaxFailedIndexes, "requires indexed completion mode"))
		}
	}
	if spec.SuccessPolicy != nil && mode != batchv1.IndexedCompletion {
		errs = append(errs, field.Invalid(at.Child("successPolicy"), *spec.SuccessPolicy, "requires indexed completion mode"))
	}
	if mode != batchv1.IndexedCompletion {
		return errs
	}
	if spec.Completions == nil {
		errs = append(errs, field.Required(at.Child("completions"), "when completion mode is Indexed"))
	} else if spec.MaxFailedIndexes != nil && *spec.MaxFailedIndexes > *spec.Completions {
		errs = append(errs,
			field.Invalid(at.Child("maxFailedIndexes"), *spec.MaxFailedIndexes, "must be less than or equal to completions"))
	}
	if spec.Parallelism != nil && *spec.Parallelism > mostParallel {
		errs = append(errs, field.Invalid(at.Child("parallelism"), *spec.Parallelism,
			fmt.Sprintf("must be less than or equal to %d when completion mode is Indexed", mostParallel)))
	}
	return append(errs, checkMany(at, spec)...)
}

// checkMany checks the limits of an indexed job of many completions, or of failed indexes.
func checkMany(at *field.Path, spec *batchv1.JobSpec) field.ErrorList {
	const ( // those of pkg/apis/batch/validation
		mostFailed, many        = 100_000, 100_000
		mostParallel, mostOfAll = 10_000, 10_000
	)
	var errs field.ErrorList
	failed := at.Child("maxFailedIndexes")
	if spec.MaxFailedIndexes != nil && *spec.MaxFailedIndexes > mostFailed {
		errs = append(errs,
			field.Invalid(failed, *spec.MaxFailedIndexes, fmt.Sprintf("must be less than or equal to %d", mostFailed)))
	}
	if spec.Completions == nil || *spec.Completions <= many || spec.BackoffLimitPerIndex == nil {
		return errs
	}
	below := func(at *field.Path, n *int32, most int32) {
		if n != nil && *n > most {
			errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d when completions are above "+
				"%d and used with backoff limit per index", most, many)))
		}
	}
	if spec.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(failed, fmt.Sprintf("must be specified when completions is above %d", many)))
	}
	below(at.Child("parallelism"), spec.Parallelism, mostParallel)
	below(failed, spec.MaxFailedIndexes, mostOfAll)
	return errs
}

// checkSuccessPolicy checks when an indexed job succeeds early; not which indexes.
func checkSuccessPolicy(at *field.Path, spec *batchv1.JobSpec) field.ErrorList {
	if spec.SuccessPolicy == nil || spec.CompletionMode == nil || *spec.CompletionMode != batchv1.IndexedCompletion {
		return nil
	}
	var errs field.ErrorList
	if len(spec.SuccessPolicy.Rules) == 0 {
		errs = append(errs, field.Required(at, "at least one rules must be specified when the successPolicy is specified"))
	}
	for i, rule := range spec.SuccessPolicy.Rules {
		if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
			errs = append(errs,
				field.Required(at.Index(i), "at least one of succeededCount or succeededIndexes must be specified"))
		}
		errs = append(errs, check.NotNegative(at.Index(i), "succeededCount", rule.SucceededCount)...)
		if n := rule.SucceededCount; n != nil && spec.Completions != nil && *n > *spec.Completions {
			errs = append(errs, field.Invalid(at.Index(i).Child("succeededCount"), *n,
				fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", *spec.Completions)))
		}
	}
	return errs
}

// checkFailurePolicy checks what becomes of pods that fail.
func checkFailurePolicy(at *field.Path, spec *batchv1.JobSpec) field.ErrorList {
	if spec.PodFailurePolicy == nil {
		return check.KnownIfSet(at, "podReplacementPolicy", spec.PodReplacementPolicy, batchv1.Failed,
			batchv1.TerminatingOrFailed)
	}
	errs := check.KnownIfSet(at, "podReplacementPolicy", spec.PodReplacementPolicy, batchv1.Failed)
	for i := range spec.PodFailurePolicy.Rules {
		rule, p := &spec.PodFailurePolicy.Rules[i], at.Child("podFailurePolicy", "rules").Index(i)
		if rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Invalid(p.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set"))
		}
		errs = append(errs, listed(p, "action", rule.Action, batchv1.PodFailurePolicyActionCount,
			batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob,
			batchv1.PodFailurePolicyActionIgnore)...)
		switch {
		case rule.OnExitCodes != nil && len(rule.OnPodConditions) > 0:
			errs = append(errs,
				field.Invalid(p, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
		case rule.OnExitCodes == nil && len(rule.OnPodConditions) == 0:
			errs = append(errs,
				field.Invalid(p, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
		}
		if rule.OnExitCodes != nil {
			errs = append(errs, checkExitCodes(p.Child("onExitCodes"), rule.OnExitCodes, &spec.Template.Spec)...)
		}
		for j, c := range rule.OnPodConditions {
			condition := p.Child("onPodConditions").Index(j)
			errs = append(errs, check.Invalid(condition.Child("type"), c.Type, validation.IsQualifiedName(string(c.Type)))...)
			errs = append(errs,
				listed(condition, "status", c.Status, corev1.ConditionFalse, corev1.ConditionTrue,
					corev1.ConditionUnknown)...)
		}
	}
	return errs
}

// listed is check.OneOf with upstream's text for a missing value of a failure policy.
func listed[T ~string](at *field.Path, name string, value T, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at.Child(name), fmt.Sprintf("valid values: %q", supported))}
	}
	return check.Known(at, name, value, supported...)
}

func checkExitCodes(at *field.Path, codes *batchv1.PodFailurePolicyOnExitCodesRequirement, pod *corev1.PodSpec) field.ErrorList {
	errs := listed(at, "operator", codes.Operator, batchv1.PodFailurePolicyOnExitCodesOpIn,
		batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if name := codes.ContainerName; name != nil {
		named := func(c corev1.Container) bool { return c.Name == *name }
		if !slices.ContainsFunc(pod.Containers, named) && !slices.ContainsFunc(pod.InitContainers, named) {
			errs = append(errs,
				field.Invalid(at.Child("containerName"), *name,
					"must be one of the container or initContainer names in the pod template"))
		}
	}
	if len(codes.Values) == 0 {
		errs = append(errs, field.Invalid(at.Child("values"), codes.Values, "at least one value is required"))
	}
	if !slices.IsSorted(codes.Values) {
		errs = append(errs, field.Invalid(at.Child("values"), codes.Values, "must be ordered"))
	}
	repeated := check.Repeated(codes.Values)
	for i, code := range codes.Values {
		p := at.Child("values").Index(i)
		if code == 0 && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(p, code, "must not be 0 for the In operator"))
		}
		if repeated[i] {
			errs = append(errs, field.Duplicate(p, code))
		}
	}
	return errs
}

// validateJobUpdate validates the change of a Job: only what the job controller can follow may
// change. Where the pods of a suspended job run that never started, and what they need, may
// be decided later.
func validateJobUpdate(o, old *batchv1.Job) field.ErrorList {
	template, before := o.Spec.Template.DeepCopy(), &old.Spec.Template
	if suspend := old.Spec.Suspend; suspend != nil && *suspend && old.Status.StartTime == nil {
		template.Labels, template.Annotations = before.Labels, before.Annotations
		template.Spec.NodeSelector, template.Spec.Tolerations = before.Spec.NodeSelector, before.Spec.Tolerations
		template.Spec.Affinity, template.Spec.SchedulingGates = before.Spec.Affinity, before.Spec.SchedulingGates
		takeResources(template.Spec.Containers, before.Spec.Containers)
		takeResources(template.Spec.InitContainers, before.Spec.InitContainers)
	}
	at, now, was := check.Spec(), &o.Spec, &old.Spec
	errs := check.Unchanged(at, "template", *template, *before)
	errs = append(errs, hostnamesOf(o)...)
	errs = append(errs, check.Unchanged(at, "selector", now.Selector, was.Selector)...)
	errs = append(errs, check.Unchanged(at, "completionMode", now.CompletionMode, was.CompletionMode)...)
	errs = append(errs, check.Unchanged(at, "podFailurePolicy", now.PodFailurePolicy, was.PodFailurePolicy)...)
	errs = append(errs, check.Unchanged(at, "successPolicy", now.SuccessPolicy, was.SuccessPolicy)...)
	errs = append(errs, check.Unchanged(at, "backoffLimitPerIndex", now.BackoffLimitPerIndex, was.BackoffLimitPerIndex)...)
	errs = append(errs, check.Unchanged(at, "managedBy", now.ManagedBy, was.ManagedBy)...)
	if now.CompletionMode == nil || *now.CompletionMode != batchv1.IndexedCompletion {
		return append(errs, check.Unchanged(at, "completions", now.Completions, was.Completions)...)
	}
	if now.Completions != nil && was.Completions != nil && *now.Completions != *was.Completions &&
		now.Parallelism != nil && *now.Completions != *now.Parallelism {
		errs = append(errs,
			field.Invalid(at.Child("completions"), *now.Completions, "can only be modified in tandem with spec.parallelism"))
	}
	return errs
}

// takeResources gives containers what the former ones need, so that it does not count in a
// comparison.
func takeResources(containers, former []corev1.Container) {
	for i := range containers[:min(len(containers), len(former))] {
		containers[i].Resources = former[i].Resources
	}
}

// validateCronJob validates a CronJob.
func validateCronJob(o *batchv1.CronJob) field.ErrorList {
	spec := &o.Spec
	errs := check.Required(check.Spec(), "schedule", spec.Schedule, scheduleProblems)
	errs = append(errs,
		check.OneOf(check.Spec(), "concurrencyPolicy", spec.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent,
			batchv1.ReplaceConcurrent)...)
	errs = append(errs, check.NotNegative(check.Spec(), "startingDeadlineSeconds", spec.StartingDeadlineSeconds)...)
	errs = append(errs, check.NotNegative(check.Spec(), "successfulJobsHistoryLimit", spec.SuccessfulJobsHistoryLimit)...)
	errs = append(errs, check.NotNegative(check.Spec(), "failedJobsHistoryLimit", spec.FailedJobsHistoryLimit)...)
	errs = append(errs, checkTimeZone(check.Spec("timeZone"), spec.TimeZone)...)
	return append(errs, checkJobSpec(check.Spec("jobTemplate", "spec"), &spec.JobTemplate.Spec)...)
}

// checkTimeZone checks the name of a time zone; not that this machine knows it.
func checkTimeZone(at *field.Path, zone *string) field.ErrorList {
	switch {
	case zone == nil:
		return nil
	case *zone == "":
		return field.ErrorList{field.Invalid(at, *zone, "timeZone must be nil or non-empty string")}
	case strings.EqualFold(*zone, "Local"):
		return field.ErrorList{
			field.Invalid(at, *zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"),
		}
	case strings.ContainsFunc(*zone, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-_/.", r)
	}):
		return field.ErrorList{field.Invalid(at, *zone, "unknown time zone "+*zone)}
	}
	return nil
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
