package printers

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func podCells(o *corev1.Pod, r row) []any {
	restarts, last, ready := 0, time.Time{}, 0
	for _, c := range o.Status.ContainerStatuses {
		restarts += int(c.RestartCount)
		if t := c.LastTerminationState.Terminated; t != nil && t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
		if c.Ready && c.State.Running != nil {
			ready++
		}
	}
	shown := fmt.Sprint(restarts)
	if restarts > 0 && !last.IsZero() {
		shown = fmt.Sprintf("%d (%s ago)", restarts, duration.HumanDuration(r.now.Sub(last)))
	}
	return []any{
		r.name, fmt.Sprintf("%d/%d", ready, len(o.Spec.Containers)), podStatus(o), shown, r.age,
		orNone(o.Status.PodIP), orNone(o.Spec.NodeName), orNone(o.Status.NominatedNodeName), readinessGates(o),
	}
}

// podStatus is the word in the STATUS column: the phase, unless a container, an
// init container, a gate or the deletion has something more telling.
func podStatus(o *corev1.Pod) string {
	reason := string(o.Status.Phase)
	if o.Status.Reason != "" {
		reason = o.Status.Reason
	}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			reason = corev1.PodReasonSchedulingGated
		}
	}
	if initializing, ok := initReason(o); ok {
		reason = initializing
	} else if r := containersReason(o.Status.ContainerStatuses); r != "" {
		reason = r
	}
	if o.DeletionTimestamp != nil {
		if o.Status.Reason == "NodeLost" {
			return "Unknown"
		}
		return "Terminating"
	}
	return reason
}

// initReason says how far the init containers are; ok is false when all are done.
func initReason(o *corev1.Pod) (reason string, ok bool) {
	for i, c := range o.Status.InitContainerStatuses {
		switch {
		case c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
			continue
		case c.State.Terminated != nil:
			return "Init:" + terminatedReason(c.State.Terminated), true
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			return "Init:" + c.State.Waiting.Reason, true
		case i < len(o.Spec.InitContainers) && isSidecar(&o.Spec.InitContainers[i]) && c.Started != nil && *c.Started:
			continue
		default:
			return fmt.Sprintf("Init:%d/%d", i, len(o.Spec.InitContainers)), true
		}
	}
	return "", false
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func containersReason(statuses []corev1.ContainerStatus) string {
	reason, running := "", false
	for _, c := range slices.Backward(statuses) {
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			reason = terminatedReason(c.State.Terminated)
		case c.Ready && c.State.Running != nil:
			running = true
		}
	}
	if reason == "Completed" && running {
		return "Running"
	}
	return reason
}

func terminatedReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}

func readinessGates(o *corev1.Pod) string {
	if len(o.Spec.ReadinessGates) == 0 {
		return "<none>"
	}
	ready := 0
	for _, gate := range o.Spec.ReadinessGates {
		for _, c := range o.Status.Conditions {
			if c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	return fmt.Sprintf("%d/%d", ready, len(o.Spec.ReadinessGates))
}
