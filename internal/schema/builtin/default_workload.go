package builtin

import "math"

// Defaults as of pkg/apis/{apps,batch,autoscaling}/*/defaults.go of Kubernetes 1.37.

func defaultDeployment(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	set(spec, "revisionHistoryLimit", int64(10))
	set(spec, "progressDeadlineSeconds", int64(600))
	strategy := made(spec, "strategy")
	set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		rolling := made(strategy, "rollingUpdate")
		set(rolling, "maxUnavailable", "25%")
		set(rolling, "maxSurge", "25%")
	}
	defaultPodTemplate(child(spec, "template"))
}

func defaultReplicaSet(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	defaultPodTemplate(child(spec, "template"))
}

func defaultReplicationController(o tree) {
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
	defaultPodTemplate(child(spec, "template"))
}

func defaultStatefulSet(o tree) {
	spec := made(o, "spec")
	set(spec, "replicas", int64(1))
	set(spec, "revisionHistoryLimit", int64(10))
	set(spec, "podManagementPolicy", "OrderedReady")
	strategy := made(spec, "updateStrategy")
	set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		set(made(strategy, "rollingUpdate"), "partition", int64(0))
	}
	retention := made(spec, "persistentVolumeClaimRetentionPolicy")
	set(retention, "whenDeleted", "Retain")
	set(retention, "whenScaled", "Retain")
	for claim := range items(spec, "volumeClaimTemplates") {
		set(claim, "apiVersion", "v1")
		set(claim, "kind", "PersistentVolumeClaim")
		defaultClaim(claim)
	}
	defaultPodTemplate(child(spec, "template"))
}

func defaultDaemonSet(o tree) {
	spec := made(o, "spec")
	set(spec, "revisionHistoryLimit", int64(10))
	strategy := made(spec, "updateStrategy")
	set(strategy, "type", "RollingUpdate")
	if strategy["type"] == "RollingUpdate" {
		rolling := made(strategy, "rollingUpdate")
		set(rolling, "maxUnavailable", int64(1))
		set(rolling, "maxSurge", int64(0))
	}
	defaultPodTemplate(child(spec, "template"))
}

func defaultJob(o tree) {
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
	set(spec, "completionMode", "NonIndexed")
	set(spec, "suspend", false)
	set(spec, "manualSelector", false)
	replacement := "TerminatingOrFailed"
	if child(spec, "podFailurePolicy") != nil {
		replacement = "Failed"
	}
	set(spec, "podReplacementPolicy", replacement)
	defaultFailurePolicy(spec)
	defaultPodTemplate(child(spec, "template"))
	selectByUID(o, spec)
}

func defaultFailurePolicy(spec tree) {
	for rule := range items(child(spec, "podFailurePolicy"), "rules") {
		for pattern := range items(rule, "onPodConditions") {
			set(pattern, "status", "True")
		}
	}
}

// selectByUID gives a job a selector that no other job can have, once its uid is
// known (upstream's job strategy does it when a job is created).
func selectByUID(o, spec tree) {
	metadata := child(o, "metadata")
	uid, name := text(metadata, "uid"), text(metadata, "name")
	if uid == "" || is(spec, "manualSelector") || spec["selector"] != nil {
		return
	}
	const prefix = "batch.kubernetes.io/"
	labels := made(made(made(spec, "template"), "metadata"), "labels")
	set(labels, prefix+"controller-uid", uid)
	set(labels, "controller-uid", uid)
	set(labels, prefix+"job-name", name)
	set(labels, "job-name", name)
	spec["selector"] = tree{"matchLabels": tree{prefix + "controller-uid": uid}}
}

func defaultCronJob(o tree) {
	spec := made(o, "spec")
	set(spec, "concurrencyPolicy", "Allow")
	set(spec, "suspend", false)
	set(spec, "successfulJobsHistoryLimit", int64(3))
	set(spec, "failedJobsHistoryLimit", int64(1))
	job := child(child(spec, "jobTemplate"), "spec")
	defaultFailurePolicy(job)
	defaultPodTemplate(child(job, "template"))
}

func defaultAutoscaler(o tree) {
	spec := made(o, "spec")
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
	set(up, "selectPolicy", "Max")
	set(up, "policies", []any{tree{"type": "Pods", "value": int64(4), "periodSeconds": int64(15)}, whole})
	down := made(behavior, "scaleDown")
	set(down, "selectPolicy", "Max")
	set(down, "policies", []any{tree{"type": "Percent", "value": int64(100), "periodSeconds": int64(15)}})
}

func defaultPriorityClass(o tree) {
	set(o, "preemptionPolicy", "PreemptLowerPriority")
}

// defaultBinding fills in the group of roles, and of the subjects that have one.
func defaultBinding(o tree) {
	const group = "rbac.authorization.k8s.io"
	set(child(o, "roleRef"), "apiGroup", group)
	for subject := range items(o, "subjects") {
		if kind := subject["kind"]; kind == "User" || kind == "Group" {
			set(subject, "apiGroup", group)
		}
	}
}
