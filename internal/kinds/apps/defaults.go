package defaults

import "math"

// Defaults as of pkg/apis/{apps,batch,autoscaling}/*/defaults.go of Kubernetes 1.37.

// Deployment fills in the defaults of a deployment.
func Deployment(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	set(spec, "revisionHistoryLimit", int64(10))
	set(spec, "progressDeadlineSeconds", int64(600))
	strategy := made(spec, "strategy")
	set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		rolling := made(strategy, "rollingUpdate")
		setPointer(rolling, "maxUnavailable", "25%")
		setPointer(rolling, "maxSurge", "25%")
	}
	podTemplate(child(spec, "template"))
}

// ReplicaSet fills in the defaults of a replica set.
func ReplicaSet(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	podTemplate(child(spec, "template"))
}

// ReplicationController fills in the defaults of a replication controller.
func ReplicationController(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	if labels := templateLabels(o); len(labels) > 0 {
		if len(child(spec, "selector")) == 0 {
			spec["selector"] = labels
		}
		if metadata := made(o, "metadata"); len(child(metadata, "labels")) == 0 {
			metadata["labels"] = templateLabels(o)
		}
	}
	podTemplate(child(spec, "template"))
}

// StatefulSet fills in the defaults of a stateful set.
func StatefulSet(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	set(spec, "revisionHistoryLimit", int64(10))
	set(spec, "podManagementPolicy", "OrderedReady")
	rollout(made(spec, "updateStrategy"))
	retention := made(spec, "persistentVolumeClaimRetentionPolicy")
	set(retention, "whenDeleted", "Retain")
	set(retention, "whenScaled", "Retain")
	for claim := range items(spec, "volumeClaimTemplates") {
		claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
		Claim(claim)
	}
	podTemplate(child(spec, "template"))
}

// rollout fills in how a stateful set replaces its pods. Only a strategy of no type at all
// gets the numbers of a rolling update.
func rollout(strategy tree) {
	if text(strategy, "type") == "" {
		strategy["type"] = "RollingUpdate"
		made(strategy, "rollingUpdate")
	}
	if strategy["type"] == "RollingUpdate" {
		rolling := child(strategy, "rollingUpdate")
		setPointer(rolling, "partition", int64(0))
		setPointer(rolling, "maxUnavailable", int64(1))
	}
}

// DaemonSet fills in the defaults of a daemon set.
func DaemonSet(o tree) {
	spec := made(o, "spec")
	set(spec, "revisionHistoryLimit", int64(10))
	strategy := made(spec, "updateStrategy")
	set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		rolling := made(strategy, "rollingUpdate")
		setPointer(rolling, "maxUnavailable", int64(1))
		setPointer(rolling, "maxSurge", int64(0))
	}
	podTemplate(child(spec, "template"))
}

// Job fills in the defaults of a job.
func Job(o tree) {
	spec := made(o, "spec")
	if spec["completions"] == nil && spec["parallelism"] == nil {
		spec["completions"] = int64(1)
	}
	set(spec, "parallelism", int64(1))
	backoff := int64(6)
	if spec["backoffLimitPerIndex"] != nil {
		backoff = math.MaxInt32
	}
	set(spec, "backoffLimit", backoff)
	setPointer(spec, "completionMode", "NonIndexed")
	set(spec, "suspend", false)
	set(spec, "manualSelector", false)
	replacement := "TerminatingOrFailed"
	if child(spec, "podFailurePolicy") != nil {
		replacement = "Failed"
	}
	setPointer(spec, "podReplacementPolicy", replacement)
	defaultFailurePolicy(spec)
	podTemplate(child(spec, "template"))
	jobLabels(o)
}

// jobLabels gives a job without labels those of its pods: the same map, so that it also
// gets those that its completion adds, as upstream.
func jobLabels(o tree) {
	labels := child(child(child(child(o, "spec"), "template"), "metadata"), "labels")
	if metadata := made(o, "metadata"); len(labels) > 0 && len(child(metadata, "labels")) == 0 {
		metadata["labels"] = labels
	}
}

func defaultFailurePolicy(spec tree) {
	for rule := range items(child(spec, "podFailurePolicy"), "rules") {
		for pattern := range items(rule, "onPodConditions") {
			set(pattern, "status", "True")
		}
	}
}

// CronJob fills in the defaults of a cron job.
func CronJob(o tree) {
	spec := made(o, "spec")
	set(spec, "concurrencyPolicy", "Allow")
	set(spec, "suspend", false)
	set(spec, "successfulJobsHistoryLimit", int64(3))
	set(spec, "failedJobsHistoryLimit", int64(1))
	job := child(child(spec, "jobTemplate"), "spec")
	defaultFailurePolicy(job)
	podTemplate(child(job, "template"))
}

// Autoscaler fills in the defaults of an autoscaler of autoscaling/v2.
func Autoscaler(o tree) {
	spec := made(o, "spec")
	if spec == nil {
		return // it is no object: decoding refuses it
	}
	set(spec, "minReplicas", int64(1))
	if list, _ := spec["metrics"].([]any); len(list) == 0 {
		spec["metrics"] = []any{tree{"type": "Resource", "resource": tree{
			"name": "cpu", "target": tree{"type": "Utilization", "averageUtilization": int64(80)},
		}}}
	}
	behavior := child(spec, "behavior")
	if behavior == nil {
		return
	}
	whole := tree{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)}
	up := made(behavior, "scaleUp")
	set(up, "stabilizationWindowSeconds", int64(0))
	setPointer(up, "selectPolicy", "Max")
	setPointer(up, "policies", []any{tree{"type": "Pods", "value": int64(4), "periodSeconds": int64(15)}, whole})
	down := made(behavior, "scaleDown")
	setPointer(down, "selectPolicy", "Max")
	setPointer(down, "policies", []any{tree{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)}})
}

// PriorityClass fills in the defaults of a priority class.
func PriorityClass(o tree) {
	setPointer(o, "preemptionPolicy", "PreemptLowerPriority")
}

// Binding fills in the group of roles, and of the subjects that have one.
func Binding(o tree) {
	const group = "rbac.authorization.k8s.io"
	set(child(o, "roleRef"), "apiGroup", group)
	for subject := range items(o, "subjects") {
		if kind := subject["kind"]; kind == "User" || kind == "Group" {
			set(subject, "apiGroup", group)
		}
	}
}

// OldAutoscaler fills in the defaults of an autoscaler of autoscaling/v1; its metrics
// are defaulted when it becomes one of autoscaling/v2.
func OldAutoscaler(o tree) { set(made(o, "spec"), "minReplicas", int64(1)) }
